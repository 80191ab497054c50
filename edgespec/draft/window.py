"""Lookahead's window: several parallel guesses of the text to come, each refined by every pass.

Column j holds up to `n_levels` tokens; the token of (level i, column j) is a guess for the place i + j + 1 after the
last committed token. In a tree it hangs from (i - 1, j), on level 0 from (0, j - 1), and from the root where there is
none, so depth is place. A pass gives each column one token more, the target's own choice after its last one; then the
oldest leaves and the columns move along with the text. With one level this is Jacobi's iteration: every guess is
replaced by what the target says after the guess before it. Knows no trees, rows or rates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

Guess = Callable[[int], int]
Cell = tuple[int, int]


class Window:
    """`n_columns` columns, at first with one token each. `guess`: some token that may follow a token."""

    def __init__(self, n_columns: int, n_levels: int, guess: Guess, last: int) -> None:
        if n_columns < 1 or n_levels < 1:
            raise ValueError(f"a window of {n_columns} columns and {n_levels} levels")
        self.n_columns = n_columns
        self.n_levels = n_levels
        self._guess = guess
        self._columns: list[list[int]] = []
        for _ in range(n_columns):
            last = guess(last)
            self._columns.append([last])

    @property
    def depth(self) -> int:
        """Levels filled so far; each pass over the window fills one more, until all are."""
        return len(self._columns[0])

    @property
    def is_full(self) -> bool:
        return self.depth == self.n_levels

    @property
    def columns(self) -> tuple[tuple[int, ...], ...]:
        return tuple(map(tuple, self._columns))

    def cells(self, n_columns: int, n_levels: int) -> Iterator[tuple[Cell, Cell | None, int]]:
        """(cell, the cell it hangs from, its token), each after what it hangs from: level 0 first, then by column."""
        columns = self._columns[:n_columns]
        for place, column in enumerate(columns):
            yield (0, place), ((0, place - 1) if place else None), column[0]
        for place, column in enumerate(columns):
            for level, token in enumerate(column[1:n_levels], 1):
                yield (level, place), (level - 1, place), token

    def slide(self, n_emitted: int) -> None:
        """The text went on by so many tokens, and no rows of the window were to be had."""
        self._move(n_emitted)

    def advance(self, chosen: Sequence[int], n_emitted: int) -> list[tuple[int, ...]]:
        """The target chose `chosen[j]` after the last token of column j; then the text went on by so many tokens.

        Columns that took no part are forgotten. Returns what the columns were before their oldest tokens left: pieces
        of text that the target would say, but for their first token.
        """
        grows = not self.is_full
        self._columns = [[*column, token] for column, token in zip(self._columns, chosen, strict=False)]
        pieces = list(self.columns)
        if grows:
            self._move(n_emitted)
        else:
            self._move(n_emitted - 1)
            self._columns = [column[1:] for column in self._columns]
        return pieces

    def iterate(self, chosen: Sequence[int], n_emitted: int) -> None:
        """As `advance`, but only level 0 took part, and it is replaced; the other levels begin anew."""
        self._columns = [[column[0], token] for column, token in zip(self._columns, chosen, strict=False)]
        self._move(n_emitted - 1)
        self._columns = [column[1:] for column in self._columns]

    def _move(self, n_places: int) -> None:
        """Leave out the columns whose place is past; new ones come at the end, each one place after the one before."""
        columns = self._columns
        while len(columns) < n_places + self.n_columns:
            last = columns[-1]
            columns.append([*last[1:], self._guess(last[-1])])
        self._columns = columns[n_places : n_places + self.n_columns]
