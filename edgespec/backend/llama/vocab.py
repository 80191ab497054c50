"""Text to token ids and back by the model's own vocabulary. Has the shape that the text layer asks of a vocabulary."""

from __future__ import annotations

import ctypes
from functools import cached_property

import llama_cpp

from edgespec.backend.llama.native import LoadedModel

# Enough for almost any single token's bytes; a longer one is asked for again with the size the library names.
PIECE_BYTES = 64
SPECIAL = llama_cpp.LLAMA_TOKEN_ATTR_CONTROL | llama_cpp.LLAMA_TOKEN_ATTR_UNKNOWN


class LlamaVocabulary:
    """Of a loaded model; once that is closed, everything not known yet raises EngineFailure."""

    def __init__(self, model: LoadedModel) -> None:
        self._model = model
        self._pieces: dict[int, bytes] = {}

    @property
    def _vocab(self) -> llama_cpp.llama_vocab_p:
        return llama_cpp.llama_model_get_vocab(self._model.pointer)

    @cached_property
    def n_vocab(self) -> int:
        return int(llama_cpp.llama_vocab_n_tokens(self._vocab))

    @cached_property
    def bos(self) -> int | None:
        token = int(llama_cpp.llama_vocab_bos(self._vocab))
        return token if token >= 0 and llama_cpp.llama_vocab_get_add_bos(self._vocab) else None

    @cached_property
    def bos_text(self) -> str:
        return self._spelling(int(llama_cpp.llama_vocab_bos(self._vocab)))

    @cached_property
    def eos_text(self) -> str:
        return self._spelling(int(llama_cpp.llama_vocab_eos(self._vocab)))

    @cached_property
    def end_tokens(self) -> frozenset[int]:
        vocab = self._vocab
        return frozenset(t for t in range(self.n_vocab) if llama_cpp.llama_vocab_is_eog(vocab, t))

    @cached_property
    def special_tokens(self) -> dict[str, int]:
        """Control tokens and the unknown one: what the library itself never finds in plain text. Tokens that the
        model's makers added to the plain text (runs of spaces, tags) are not special.
        """
        vocab = self._vocab
        special = (t for t in range(self.n_vocab) if llama_cpp.llama_vocab_get_attr(vocab, t) & SPECIAL)
        return {text: t for t in special if (text := self._spelling(t))}

    def tokenize(self, text: str) -> list[int]:
        return self._tokenize(text, parse_special=False)

    def tokenize_special(self, text: str) -> list[int]:
        return self._tokenize(text, parse_special=True)

    def piece(self, token: int) -> bytes:
        known = self._pieces.get(token)
        if known is None:
            if not 0 <= token < self.n_vocab:  # the library would end the process
                raise ValueError(f"token {token} of {self.n_vocab}")
            known = self._pieces[token] = self._piece(token, PIECE_BYTES)
        return known

    def _piece(self, token: int, n_bytes: int) -> bytes:
        buffer = ctypes.create_string_buffer(n_bytes)
        size = llama_cpp.llama_token_to_piece(self._vocab, token, buffer, n_bytes, 0, False)
        return buffer.raw[:size] if size >= 0 else self._piece(token, -size)

    def _spelling(self, token: int) -> str:
        if token < 0:
            return ""
        text: bytes = llama_cpp.llama_vocab_get_text(self._vocab, token)
        return text.decode("utf-8", "replace")

    def _tokenize(self, text: str, parse_special: bool) -> list[int]:
        raw = text.encode("utf-8", "replace")
        return self._tokens(raw, len(raw) + 8, parse_special)

    def _tokens(self, raw: bytes, capacity: int, parse_special: bool) -> list[int]:
        tokens = (llama_cpp.llama_token * capacity)()
        n = llama_cpp.llama_tokenize(self._vocab, raw, len(raw), tokens, capacity, False, parse_special)
        # Below 0 it names the room it needs: some vocabularies write out a character as several.
        return list(tokens[:n]) if n >= 0 else self._tokens(raw, -n, parse_special)
