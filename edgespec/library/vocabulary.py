"""A GGUF's vocabulary as its header spells it: for comparing two models' token ids, not for reading text.

Read only when it is asked for, because it is the longest part of a header. Loads no model.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from edgespec.errors import CorruptModel, ModelNotFound, UnsupportedModel
from edgespec.library.container import Container, DamageError, parse_container
from edgespec.library.header import read_header

_PREFIX = "tokenizer.ggml."
_TOKENS, _KINDS = f"{_PREFIX}tokens", f"{_PREFIX}token_type"


class TokenKind(IntEnum):
    """GGUF's own numbers."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """spellings: of ids 0, 1, ..., as the file writes them, so only files of one tokenizer are alike. kinds: numbers of
    TokenKind, one per id, or none where the file states none. model, pre: how text is split, "" where not stated.
    bos, eos, eot: ids, None where not stated; adds_bos likewise. name: for sentences.
    """

    name: str
    spellings: tuple[str, ...]
    kinds: tuple[int, ...] = ()
    model: str = ""
    pre: str = ""
    bos: int | None = None
    eos: int | None = None
    eot: int | None = None
    adds_bos: bool | None = None

    def __len__(self) -> int:
        return len(self.spellings)

    def kind(self, token: int) -> int:
        """NORMAL where the file states no kinds."""
        return self.kinds[token] if self.kinds else TokenKind.NORMAL

    def token_hash(self, n_tokens: int | None = None) -> str:
        """Of the first ids, None for all: sha256 in hex over their spellings in order, each as its length in bytes, 4
        bytes little endian, and then its UTF-8 bytes. A step model names its vocabulary so.
        """
        digest = hashlib.sha256()
        for spelling in self.spellings[:n_tokens]:
            data = spelling.encode("utf-8", "surrogateescape")
            digest.update(struct.pack("<I", len(data)) + data)
        return digest.hexdigest()


def read_vocabulary(path: Path) -> Vocabulary:
    """Of a GGUF, or of the first part of a split one. Raises what `read_header` does, and UnsupportedModel for a file
    without a vocabulary.
    """
    header = read_header(path)
    container = _read(header.path)
    spellings = tuple(text for text in _items(container, _TOKENS) if isinstance(text, str))
    kinds = tuple(kind for kind in _items(container, _KINDS) if isinstance(kind, int))
    if not spellings:
        raise UnsupportedModel(str(path), "it holds no vocabulary", "give the GGUF of a language model")
    return Vocabulary(
        name=path.name,
        spellings=spellings,
        kinds=kinds if len(kinds) == len(spellings) else (),
        model=_text(container, "model"),
        pre=_text(container, "pre"),
        bos=_id(container, "bos_token_id"),
        eos=_id(container, "eos_token_id"),
        eot=_id(container, "eot_token_id"),
        adds_bos=_flag(container, "add_bos_token"),
    )


def _read(path: Path) -> Container:
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
            return parse_container(buffer, frozenset((_TOKENS, _KINDS)))
    except OSError as error:
        raise ModelNotFound(str(path), f"it cannot be read ({error.strerror})", "check the file's rights") from None
    except DamageError as damage:
        raise CorruptModel(str(path), f"its vocabulary is damaged: {damage}", "download it again") from None


def _items(container: Container, key: str) -> tuple[object, ...]:
    value = container.values.get(key, ())
    return value if isinstance(value, tuple) else ()


def _text(container: Container, key: str) -> str:
    value = container.values.get(_PREFIX + key)
    return value if isinstance(value, str) else ""


def _id(container: Container, key: str) -> int | None:
    value = container.values.get(_PREFIX + key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _flag(container: Container, key: str) -> bool | None:
    value = container.values.get(_PREFIX + key)
    return value if isinstance(value, bool) else None
