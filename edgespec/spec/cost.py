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


# Reading many tokens at once is at least so much cheaper than as many steps, where nobody has measured it.
_READ_SHARE = 0.25

# Read tokens that an old estimate of their price is worth.
_READ_MEMORY = 64

# A long call is remembered for some fifty calls: drafts that are mostly ready beforehand must still be made at times.
_PEAK_KEPT = 0.96

# Prices are computed for so many nodes at a time.
_SIZES = 32

# Added to every deadline: below it a scheduler's own delay decides.
_LATE_SECONDS = 1e-3


class DraftCosts:
    """Seconds of one drafter's calls: by the nodes asked for, and per token that it has to read first.

    Between measured sizes on a line, since drafting is sequential; above them in proportion to the size; below them
    the smallest measured one. A drafter nobody measured costs nothing until it has been called; a token to read is then
    taken to cost a quarter of a step, since many are read at once. Calls may be mostly short and now and then long, as
    those of a drafter that works ahead: the price is their mean, the bound knows the long ones.
    """

    def __init__(self, seconds: Seq[tuple[int, float]] = (), read_seconds: float | None = None) -> None:
        self.excess = Excess(0.25)
        self._seconds = dict(sorted(seconds))
        self._read_seconds = read_seconds
        self._peak_seconds = 0.0
        self._by_size: list[float] = []

    @property
    def cheapest(self) -> float:
        """Seconds of the smallest call; 0 if none is known."""
        return next(iter(self._seconds.values()), 0.0)

    def seconds(self, n_nodes: int) -> float:
        """Of a call for so many nodes; never more than a larger one was seen to take."""
        if not self._seconds or n_nodes <= 0:
            return 0.0
        if n_nodes >= len(self._by_size):
            self._by_size = self._prices(max(n_nodes, _SIZES))
        return self._by_size[n_nodes]

    def view(self, n_nodes: int) -> float:
        """`seconds`, from any thread: it leaves no trace."""
        return self._prices(n_nodes)[n_nodes] if self._seconds else 0.0

    def _prices(self, most: int) -> list[float]:
        """Seconds by nodes 0..most."""
        prices = [0.0, *(self._between(n) for n in range(1, max(most, *self._seconds) + 1))]
        for n in range(len(prices) - 2, 0, -1):
            prices[n] = min(prices[n], prices[n + 1])
        return prices

    def _between(self, n_nodes: int) -> float:
        known = self._seconds
        sizes = list(known)
        if n_nodes >= sizes[-1]:
            return known[sizes[-1]] * n_nodes / sizes[-1]
        upper = bisect_left(sizes, n_nodes)
        if upper == 0 or sizes[upper] == n_nodes:
            return known[sizes[upper]]
        low, high = sizes[upper - 1], sizes[upper]
        share = (n_nodes - low) / (high - low)
        return known[low] * (1.0 - share) + known[high] * share

    @property
    def read_seconds(self) -> float:
        """Of one token."""
        return _READ_SHARE * self.seconds(1) if self._read_seconds is None else self._read_seconds

    def reading(self, n_tokens: int) -> float:
        """Seconds of reading so many tokens."""
        return n_tokens * self.read_seconds

    def bound(self, n_nodes: int, n_behind: int = 0) -> float:
        """The call with what it reads first, as an upper bound: 95 %, or the longest of late if that is more."""
        usual = (self.seconds(n_nodes) + self.reading(n_behind)) * self.excess.factor
        return max(usual, self._peak_seconds * n_nodes + self.reading(n_behind))

    def deadline(self, n_nodes: int, n_behind: int = 0) -> float:
        """When a call is late: far beyond its bound, so that only what is stuck is given up."""
        return 2.0 * self.bound(n_nodes, n_behind) + _LATE_SECONDS

    def observe(self, n_nodes: int, seconds: float, n_read: int = 0) -> None:
        """A call for `n_nodes` that read `n_read` tokens first took `seconds`.

        One call counts as at most three times what calls take, the long ones included. Other sizes follow half as far,
        since what makes one size faster or slower mostly holds for all.
        """
        share = self._share(n_nodes, n_read)
        steps, reading = seconds * (1.0 - share), seconds * share
        known = self.seconds(n_nodes)
        if known <= 0.0:
            self._seconds = dict(sorted({**self._seconds, n_nodes: max(steps, 1e-9)}.items()))
        else:
            self._correct(n_nodes, steps, known, 0.1 * (1.0 - share))
            self.excess.observe(math.log(max(seconds, 1e-9) / (known + self.reading(n_read))))
        self._by_size = []
        if n_read and self._read_seconds is not None:
            each = min(reading / n_read, 3.0 * max(self._read_seconds, 1e-9))
            self._read_seconds += n_read / (n_read + _READ_MEMORY) * (each - self._read_seconds)
        elif n_read:
            self._read_seconds = reading / n_read

    def _share(self, n_nodes: int, n_read: int) -> float:
        """The share that reading is expected to have in a call."""
        if not n_read:
            return 0.0
        steps, reading = self.seconds(n_nodes), self.reading(n_read)
        if steps + reading <= 0.0:
            steps, reading = float(n_nodes), _READ_SHARE * n_read
        return reading / (steps + reading)

    def _correct(self, n_nodes: int, steps: float, known: float, rate: float) -> None:
        most = max(known, self._peak_seconds * n_nodes)
        factor = 1.0 + rate * (min(steps, 3.0 * most) / known - 1.0)
        others = math.sqrt(factor)
        sizes = {**self._seconds, n_nodes: known}
        scaled = {n: s * (factor if n == n_nodes else others) for n, s in sizes.items()}
        self._seconds = dict(sorted(scaled.items()))
        self._peak_seconds = max(min(steps, 3.0 * most) / n_nodes, _PEAK_KEPT * self._peak_seconds)
