"""Pieces of text by their first token, bounded, the oldest out first. Does not know where they come from."""

from __future__ import annotations

from collections.abc import Sequence

Piece = tuple[int, ...]


class NgramPool:
    """At most `per_key` pieces with the same first token, and `total` in all. A piece seen again is as good as new."""

    def __init__(self, per_key: int, total: int) -> None:
        self._per_key = per_key
        self._total = total
        # Dictionaries as ordered sets, oldest first.
        self._ages: dict[Piece, None] = {}
        self._by_key: dict[int, dict[Piece, None]] = {}

    def __len__(self) -> int:
        return len(self._ages)

    def add(self, piece: Sequence[int]) -> None:
        """Raises ValueError for an empty piece."""
        if not piece:
            raise ValueError("a piece needs a first token")
        if self._per_key <= 0 or self._total <= 0:
            return
        kept = tuple(piece)
        self._drop(kept)
        line = self._by_key.setdefault(kept[0], {})
        if len(line) >= self._per_key:
            self._drop(next(iter(line)))
        elif len(self._ages) >= self._total:
            self._drop(next(iter(self._ages)))
        self._by_key.setdefault(kept[0], {})[kept] = None
        self._ages[kept] = None

    def after(self, token: int) -> list[Piece]:
        """What followed `token`, without it, the newest first."""
        return [piece[1:] for piece in reversed(self._by_key.get(token, {}))]

    def _drop(self, piece: Piece) -> None:
        if piece not in self._ages:
            return
        del self._ages[piece]
        line = self._by_key[piece[0]]
        del line[piece]
        if not line:
            del self._by_key[piece[0]]
