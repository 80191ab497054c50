"""What a pass and a draft cost, as measured: a step table of passes, and one drafter's calls.

Contract: numbers are handed in; nothing here reads a clock. Widths are rows of one pass; seconds are wall time; a
context is the tokens a sequence holds. Knows no rounds and no policy.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence as Seq
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CostTable:
    """Seconds of one pass of so many rows at so many tokens of context.

    contexts, widths: ascending. seconds[i][j]: at contexts[i], widths[j] rows. Width 1 is always measured. is_partial:
    measuring was cut short, so widths between the measured ones are missing. Raises ValueError for anything else.
    """

    contexts: tuple[int, ...]
    widths: tuple[int, ...]
    seconds: tuple[tuple[float, ...], ...]
    is_partial: bool = False

    def __post_init__(self) -> None:
        ordered = all(list(axis) == sorted(set(axis)) for axis in (self.contexts, self.widths))
        if not self.contexts or not ordered or self.widths[:1] != (1,) or self.contexts[0] < 0:
            raise ValueError("contexts and widths must ascend, and width 1 must be among them")
        if len(self.seconds) != len(self.contexts) or any(len(row) != len(self.widths) for row in self.seconds):
            raise ValueError("there must be one time for each context and width")
        if not all(0.0 < value < math.inf for row in self.seconds for value in row):
            raise ValueError("times must be positive and finite")

    @property
    def widest(self) -> int:
        return self.widths[-1]

    def next_below(self, rows: int) -> int:
        """The widest measured width of at most so many rows."""
        return self.widths[bisect_right(self.widths, rows) - 1]

    def at(self, context: int) -> list[float]:
        """Seconds per measured width, never falling with it: between two contexts on a line, beyond them on the same.

        A wider pass measured as faster is noise; it is taken to cost what the narrower one does, which only makes
        drafting look dearer. The plain pass keeps its own time.
        """
        found: list[float] = []
        for index in range(len(self.widths)):
            found.append(max(self._interpolated(index, context), found[-1] if found else 0.0))
        return found

    def steps(self, context: int) -> list[float]:
        """Seconds by rows 0..widest: those of the next measured width, for index 0 those of one row."""
        seconds = self.at(context)
        return [seconds[bisect_left(self.widths, rows)] for rows in range(self.widest + 1)]

    def _interpolated(self, index: int, context: int) -> float:
        times = [row[index] for row in self.seconds]
        if len(times) == 1:
            return times[0]
        upper = min(max(1, bisect_left(self.contexts, context)), len(self.contexts) - 1)
        low, high = self.contexts[upper - 1], self.contexts[upper]
        # Attention over more tokens is never faster; a fall is noise and must not be extrapolated below zero.
        rise = max(0.0, times[upper] - times[upper - 1]) / (high - low)
        return max(times[upper - 1] + rise * (context - low), 0.5 * times[0])

    def to_text(self) -> str:
        return json.dumps(
            {"contexts": self.contexts, "widths": self.widths, "seconds": self.seconds, "partial": self.is_partial}
        )

    @classmethod
    def from_text(cls, text: str) -> CostTable:
        """The table that `to_text` wrote. Raises ValueError for any other text."""
        try:
            raw = json.loads(text)
            return cls(
                tuple(map(int, raw["contexts"])),
                tuple(map(int, raw["widths"])),
                tuple(tuple(map(float, row)) for row in raw["seconds"]),
                bool(raw["partial"]),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"this is no cost table: {error!r}") from error


class Excess:
    """The 95 % quantile of how far times exceed their estimate, followed online. `factor` multiplies an estimate.

    Each time above moves it up by 19 steps, each one below down by one, so it rests where one in twenty is above.
    """

    __slots__ = ("_at_first", "nats")

    def __init__(self, nats: float = 0.12) -> None:
        self.nats = self._at_first = nats

    @property
    def factor(self) -> float:
        return math.exp(self.nats)

    def observe(self, nats: float) -> None:
        self.nats = min(1.0, max(0.02, self.nats + (0.038 if nats > self.nats else -0.002)))

    def relax(self, kept: float) -> None:
        """Go part of the way back to the first value; `kept` is what stays of the difference."""
        self.nats = self._at_first + kept * (self.nats - self._at_first)


class DraftCosts:
    """Seconds of one drafter's calls by the nodes asked for.

    Between measured sizes on a line, since drafting is sequential; above them in proportion to the size; below them
    the smallest measured one. A drafter nobody measured costs nothing until it has been called.
    """

    def __init__(self, seconds: Seq[tuple[int, float]] = ()) -> None:
        self.excess = Excess(0.25)
        self._seconds = dict(sorted(seconds))

    @property
    def cheapest(self) -> float:
        """Seconds of the smallest call; 0 if none is known."""
        return next(iter(self._seconds.values()), 0.0)

    def seconds(self, n_nodes: int) -> float:
        sizes = list(self._seconds)
        if not sizes or n_nodes <= 0:
            return 0.0
        if n_nodes >= sizes[-1]:
            return self._seconds[sizes[-1]] * n_nodes / sizes[-1]
        upper = bisect_left(sizes, n_nodes)
        if upper == 0 or sizes[upper] == n_nodes:
            return self._seconds[sizes[upper]]
        low, high = sizes[upper - 1], sizes[upper]
        share = (n_nodes - low) / (high - low)
        return self._seconds[low] * (1.0 - share) + self._seconds[high] * share

    def bound(self, n_nodes: int) -> float:
        return self.seconds(n_nodes) * self.excess.factor

    def observe(self, n_nodes: int, seconds: float) -> None:
        """A call for `n_nodes` took `seconds`; one call counts as at most three times the estimate."""
        known = self.seconds(n_nodes)
        if known <= 0.0:
            self._seconds[n_nodes] = max(seconds, 1e-9)
        else:
            self.excess.observe(math.log(max(seconds, 1e-9) / known))
            self._seconds[n_nodes] = known + 0.1 * (min(seconds, 3.0 * known) - known)
        self._seconds = dict(sorted(self._seconds.items()))
