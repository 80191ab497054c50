"""The socket between text and token ids, and the one way a prompt is turned into tokens.

A model's vocabulary implements `Vocabulary` by structure; nothing here knows which library it comes from. Special
tokens (`<|im_end|>` and the like) are parsed in trusted text only, so nobody can type one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


class Vocabulary(Protocol):
    """Token ids are 0 .. n_vocab - 1. The tokenisers never add a token that the text does not hold, such as a bos."""

    @property
    def n_vocab(self) -> int: ...

    @property
    def bos(self) -> int | None:
        """The token every prompt of this model must begin with; None when the model wants none."""

    @property
    def bos_text(self) -> str:
        """How a chat template spells the begin token; "" when there is none. Set even if `bos` is None."""

    @property
    def eos_text(self) -> str:
        """How a chat template spells the end token; "" when there is none."""

    @property
    def end_tokens(self) -> frozenset[int]:
        """Tokens that end an answer (end of sequence, end of turn)."""

    @property
    def special_tokens(self) -> Mapping[str, int]:
        """Text -> id of the tokens that `tokenize` must never return and `tokenize_special` finds in text."""

    def tokenize(self, text: str) -> list[int]:
        """Plain text: `<|im_end|>` is ten letters."""

    def tokenize_special(self, text: str) -> list[int]:
        """Text written by a template: `<|im_end|>` is one token."""

    def piece(self, token: int) -> bytes:
        """The bytes a token adds to an answer; b"" for special tokens, so that they are never printed."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a prompt. Only trusted text (the template's own) may hold special tokens."""

    text: str
    trusted: bool


def continuation(previous_text: str, segments: Sequence[Segment]) -> list[Segment] | None:
    """What the segments add to text that has been read already; None when they do not begin with it."""
    if not "".join(segment.text for segment in segments).startswith(previous_text):
        return None
    rest: list[Segment] = []
    n_known = len(previous_text)
    for segment in segments:
        if n_known < len(segment.text):
            rest.append(Segment(segment.text[n_known:], segment.trusted))
        n_known = max(0, n_known - len(segment.text))
    return rest


class SpecialTexts:
    """Finds the spellings of special tokens in text; built once per model."""

    def __init__(self, texts: Iterable[str]) -> None:
        spellings = sorted({text for text in texts if text}, key=lambda text: (-len(text), text))
        # Without the never-matching tail an empty vocabulary of specials would split at every character.
        self._pattern = re.compile("|".join([*map(re.escape, spellings), r"(?!)"]))
        self._heads = {text[:n] for text in spellings for n in range(1, len(text))}
        self._tails = {text[n:] for text in spellings for n in range(1, len(text))}
        self._longest = len(spellings[0]) if spellings else 0

    def cut(self, text: str) -> Iterator[tuple[str, bool]]:
        """(stretch, is a special token's spelling) in order; longest spelling first at each place."""
        end = 0
        for match in self._pattern.finditer(text):
            if match.start() > end:
                yield text[end : match.start()], False
            yield match.group(), True
            end = match.end()
        if end < len(text):
            yield text[end:], False

    def risky_spans(self, text: str) -> list[tuple[int, int]]:
        """Disjoint (start, end) stretches that hold a special spelling, or could become one beside other text.

        The second kind are edges: a tail of `text` that begins a spelling, a head that ends one. White space around the
        text is ignored, because templates strip it.
        """
        start, end = len(text) - len(text.lstrip()), len(text.rstrip())
        reach = range(1, min(self._longest, end - start + 1))
        spans = [match.span() for match in self._pattern.finditer(text)]
        spans += [(start, start + n) for n in reach if text[start : start + n] in self._tails][-1:]
        spans += [(end - n, end) for n in reach if text[end - n : end] in self._heads][-1:]
        return _merged(spans)


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


class PromptEncoder:
    """Turns segments into token ids. Special tokens come from trusted segments only."""

    def __init__(self, vocab: Vocabulary) -> None:
        self.specials = SpecialTexts(vocab.special_tokens)
        self._vocab = vocab

    def encode(self, segments: Sequence[Segment]) -> list[int]:
        """A whole prompt. It starts with the model's begin token exactly once, if the model wants one."""
        tokens = self.encode_more(segments)
        bos = self._vocab.bos
        if bos is None or tokens[:1] == [bos]:
            return tokens
        return [bos, *tokens]

    def encode_more(self, segments: Sequence[Segment]) -> list[int]:
        """Text that follows tokens already read: no begin token is added."""
        if all(segment.trusted for segment in segments):
            return self._vocab.tokenize_special("".join(segment.text for segment in segments))
        return self._encode_mixed(segments)

    def _encode_mixed(self, segments: Sequence[Segment]) -> list[int]:
        """Special tokens cut the text into runs, as the tokenisers themselves do; runs go across segments."""
        tokens: list[int] = []
        run = ""
        for text, special in self._stretches(segments):
            if not special:
                run += text
                continue
            tokens += self._vocab.tokenize(run) if run else []
            tokens.append(self._vocab.special_tokens[text])
            run = ""
        return tokens + (self._vocab.tokenize(run) if run else [])

    def _stretches(self, segments: Sequence[Segment]) -> Iterator[tuple[str, bool]]:
        for segment in segments:
            if segment.trusted:
                yield from self.specials.cut(segment.text)
            else:
                yield segment.text, False
