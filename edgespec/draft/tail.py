"""The end of a text and how far it has stood in it before: what tells at once, for the price of one dictionary step a
token, that a drafter which copies has nothing to say.

Knows no drafts and no rates.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Seq
from typing import Protocol

# Of rounds in a row whose match is too poor to be told so many in one are told all the same.
_HEARD_EVERY = 8


class Index(Protocol):
    def extend(self, tokens: Iterable[int], /) -> None:
        """Append tokens."""


class Tail:
    """length: of the match with the latest place where the last `n` tokens stood before, 0 if they never did. Where it
    begins anew it is looked at up to `longest` tokens.

    `n`, `longest`: at least 1.
    """

    __slots__ = ("_end", "_last", "_longest", "_n", "_n_hushed", "_seen", "_text", "_unread", "length")

    def __init__(self, tokens: Seq[int], n: int, longest: int) -> None:
        self._unread: list[int] = []
        self.length = self._n_hushed = 0
        self._n = n
        self._longest = longest
        self._end = -1
        self._text: list[int] = []
        self._last: tuple[int, ...] = ()
        self._seen: dict[tuple[int, ...], int] = {}
        self.append(tokens)
        self._unread.clear()

    @property
    def n_tokens(self) -> int:
        return len(self._text)

    def last(self, n: int) -> list[int]:
        """The text's last `n` tokens, all of a shorter one."""
        return self._text[-n:]

    def read_into(self, index: Index) -> int:
        """Append to a drafter's index what was appended here since the last time, and return how many tokens."""
        n_unread = len(self._unread)
        if n_unread:
            index.extend(self._unread)
            self._unread.clear()
        return n_unread

    def is_hushed(self) -> bool:
        """Of a match that is too poor to be told: is it kept silent about this time?"""
        self._n_hushed += 1
        return self._n_hushed % _HEARD_EVERY != 0

    def append(self, tokens: Seq[int]) -> None:
        self._unread.extend(tokens)
        text, seen = self._text, self._seen
        for token in tokens:
            goes_on = self.length and text[self._end + 1] == token
            text.append(token)
            self._last = last = (*self._last[1 - self._n :], token) if self._n > 1 else (token,)
            if goes_on:
                self._end += 1
                self.length += 1
            else:
                self._match(seen.get(last, -1) if len(last) == self._n else -1)
            seen[last] = len(text) - 1

    def _match(self, end: int) -> None:
        """The last tokens stood before `end`, too, and perhaps those before them."""
        self._end, self.length = end, 0
        if end >= 0:
            text, length = self._text, self._n
            while length < self._longest and end >= length and text[end - length] == text[-1 - length]:
                length += 1
            self.length = length
