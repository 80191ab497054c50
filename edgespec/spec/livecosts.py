"""The cost table as this hour's rounds have corrected it: a common load, one correction per drafted width, overhead.

A width that was not measured takes the next wider one's price until rounds have had it (see `spec.trials`); what they
show becomes its own. Only plain rounds set the load, because it prices plain decoding too: learned from drafted rounds,
drafting that costs more than the table says would raise the price of plain decoding with it, and go unnoticed. Drafted
rounds wait until a plain round has shown the load they ran under, then correct their width. No single round moves
anything by much.
Contract: numbers are handed in; knows no clock, no trees, and not why a pass was slow. Errors are in nats (log ratios).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence as Seq

from edgespec.spec.cost import CostTable, Excess
from edgespec.spec.trials import Trials

# Prices are kept per this many tokens of context: attention grows by less than one part in a hundred over them.
_CONTEXT_GRAIN = 32

# Plain rounds that decide the load. More would be slower to follow a warming machine, fewer would pass on their noise.
_WINDOW = 15

# A load this far off (20 %) three plain rounds in a row is another machine state, not noise.
_JUMP = 0.18
_JUMP_ROUNDS = 3

# So many drafted rounds in a row miss their price by this much on average, beyond their own spread, or one misses it by
# a lot: then the load or the table is wrong, and plain rounds must tell which.
_DOUBT = 0.1
_DOUBT_ROUNDS = 6
_SHOCK = 0.5

# Rounds between two plain ones; without them a machine that slows down looks like drafting that got worse.
_STALE_ROUNDS = 64

# What a single round can say at most: a hiccup of a second is not a price.
_CLIP = 0.5

# Rounds that a width's old correction is worth beside new ones; less at first, when it rests on fewer.
_MEMORY = 10

# Every so many plain rounds without a draft the corrections shrink a little: drafting that was given up because it
# looked dear for a while must be found cheap again by itself.
_IDLE_ROUNDS = 64
_IDLE_KEPT = 0.9


class LiveCosts:
    """`table`, corrected. excess: how far drafted rounds exceed their price. overhead_seconds: a round's rest.

    trials: which widths may be drafted at.
    """

    def __init__(self, table: CostTable) -> None:
        self.table = table
        self.excess = Excess()
        self.trials = Trials(table.widths)
        self.overhead_seconds = 0.0
        self._load = self._last_load = 0.0
        self._n_overheads = 0
        self._plain: list[float] = []
        self._drafted: list[tuple[int, float]] = []
        self._shifts = dict.fromkeys(table.widths, 0.0)
        self._n_seen = dict.fromkeys(table.widths, 0)
        self._since_plain = 0
        self._since_drafted = 0
        self._wanted = 0
        self._prices: tuple[int, list[float]] = (-1, [])

    @property
    def load(self) -> float:
        """Time of a plain pass now over its time in the table."""
        return math.exp(self._load)

    @property
    def needs_plain(self) -> bool:
        """True when a plain round must show what plain decoding costs now: at least one in 64, and when in doubt."""
        return self._wanted > 0 or self._since_plain >= _STALE_ROUNDS - 1

    def prices(self, context: int) -> list[float]:
        """Seconds by rows 0..widest, corrected but before `load` and overhead: of the next width that has a price.

        The list is shared with later callers: read it only.
        """
        grain = context // _CONTEXT_GRAIN
        if self._prices[0] != grain:
            self._prices = (grain, self._priced(grain))
        return self._prices[1]

    def _priced(self, grain: int) -> list[float]:
        shifts = self._shifts.copy()  # `view` is asked while rounds go on
        widths = sorted(shifts)
        steps = self._steps(widths, shifts, grain * _CONTEXT_GRAIN + _CONTEXT_GRAIN // 2)
        places = (bisect_left(widths, rows) for rows in range(self.table.widest + 1))
        return [steps[place] for place in places]

    def view(self, widths: Seq[int], context: int) -> list[float]:
        """`seconds` of these measured widths. From any thread: it leaves no trace."""
        prices = self._priced(context // _CONTEXT_GRAIN)
        return [prices[rows] * self.load + self.overhead_seconds for rows in widths]

    def _steps(self, widths: list[int], shifts: dict[int, float], context: int) -> list[float]:
        """One for each width. An unmeasured one is taken as the measured one above it, shifted, and never as cheaper
        than the one below it: that would be noise.
        """
        measured = dict(zip(self.table.widths, self.table.at(context), strict=True))
        steps: list[float] = []
        for width in widths:
            seconds = measured[self._carrier(width)] * math.exp(shifts[width])
            steps.append(seconds if width in measured else max(seconds, steps[-1]))
        return steps

    def _carrier(self, width: int) -> int:
        """The next measured width."""
        return self.table.widths[bisect_left(self.table.widths, width)]

    def seconds(self, rows: int, context: int) -> float:
        """What a round of so many rows takes now, drafting excepted; inf beyond the widest measured width."""
        if rows > self.table.widest:
            return math.inf
        return self.prices(context)[rows] * self.load + self.overhead_seconds

    def bound(self, rows: int, context: int) -> float:
        """U: the same time as its 95 % upper bound."""
        return self.seconds(rows, context) * self.excess.factor

    def observe_plain(self, rows: int, context: int, seconds: float, overhead_seconds: float) -> None:
        """A pass without a draft took `seconds`, and the rest of its round, drafters excepted, `overhead_seconds`."""
        in_doubt = self._wanted > 0
        self._since_plain = 0
        self._wanted = max(0, self._wanted - 1)
        self._add_overhead(overhead_seconds)
        if rows in self.table.widths:  # the price of another width says nothing about the load
            nats = math.log(max(seconds, 1e-9) / self.prices(context)[rows])
            self._add_load(nats)
            if in_doubt and not self._wanted and abs(nats - self._load) > _JUMP:
                self._wanted = 1
        if not self._wanted:
            self._correct_widths()
        self._idle()

    def observe_drafted(self, rows: int, context: int, seconds: float) -> None:
        """A pass with a draft took `seconds`."""
        self._since_plain += 1
        self._since_drafted = 0
        nats = math.log(max(seconds, 1e-9) / self.prices(context)[rows]) - self._load
        self._drafted.append((rows, nats + self._load))
        if self.trials.knows(rows):
            self._look_for_doubt(nats)
        if nats > _SHOCK:
            self._wanted = max(self._wanted, 1)
        self.trials.observe(rows)

    def _look_for_doubt(self, nats: float) -> None:
        """Of a width whose price is known; that the others miss theirs is what they are tried for."""
        spread = self.excess.nats
        self.excess.observe(nats)
        known = [nats for width, nats in self._drafted if self.trials.knows(width)]
        recent = [max(-_CLIP, min(_CLIP, nats - self._load)) for nats in known[-_DOUBT_ROUNDS:]]
        if len(recent) == _DOUBT_ROUNDS and abs(sum(recent)) > (_DOUBT + 0.5 * spread) * _DOUBT_ROUNDS:
            self._wanted = max(self._wanted, _JUMP_ROUNDS)

    def _add_overhead(self, seconds: float) -> None:
        self._n_overheads += 1
        if self._n_overheads > 1:
            seconds = min(seconds, 3.0 * self.overhead_seconds + 1e-5)
        self.overhead_seconds += (seconds - self.overhead_seconds) / min(self._n_overheads, 20)

    def _add_load(self, nats: float) -> None:
        """The load is the mean of the middle half of the window: a few hiccups, on either side, do not move it."""
        self._plain.append(nats)
        recent = [value - self._load for value in self._plain[-_JUMP_ROUNDS:]]
        if len(recent) == _JUMP_ROUNDS and (min(recent) > _JUMP or max(recent) < -_JUMP):
            del self._plain[:-_JUMP_ROUNDS]
        del self._plain[:-_WINDOW]
        ordered = sorted(self._plain)
        quarter = len(ordered) // 4
        middle = ordered[quarter : len(ordered) - quarter]
        self._load = sum(middle) / len(middle)

    def _correct_widths(self) -> None:
        """Move each width towards the mean of its rounds; one not drafted at goes half as far with the others.

        Otherwise a width that once looked dear would never be drafted at again, and its price never corrected. The
        rounds ran under any load between the last one and this: what such a load explains is not the width's.
        """
        lowest, highest = sorted((self._last_load, self._load))
        self._last_load = self._load
        missed: dict[int, list[float]] = {}
        for width, nats in self._drafted:
            error = nats - max(lowest, min(highest, nats))
            missed.setdefault(width, []).append(max(-_CLIP, min(_CLIP, error)))
        if not missed:
            return
        everywhere = sum(sum(nats) for width, nats in missed.items() if self.trials.knows(width))
        for width in sorted({*self._shifts, *missed} - {1}, reverse=True):
            seen = self._n_seen.get(width, 0)
            own = missed.get(width, [])
            if own:
                self._shifts[width] = self._shift(width) + sum(own) / (min(seen + 2, _MEMORY) + len(own))
                self._n_seen[width] = seen + len(own)
            else:
                self._shifts[width] += 0.5 * everywhere / (_MEMORY + len(self._drafted))
        self._drafted.clear()
        self._prices = (-1, [])

    def _shift(self, width: int) -> float:
        """Of a width without a price of its own: that of the next one with a price, which is what it was tried at."""
        return self._shifts[min(one for one in self._shifts if one >= width)]

    def _idle(self) -> None:
        self._since_drafted += 1
        if self._since_drafted % _IDLE_ROUNDS == 0:
            self._shifts = {width: self._forgotten(width, shift) for width, shift in self._shifts.items()}
            self.excess.relax(_IDLE_KEPT)
            self._prices = (-1, [])

    def _forgotten(self, width: int, shift: float) -> float:
        """What stays of a shift. That an unmeasured width is cheaper than the next measured one is not a dear look."""
        above = self._shifts[self._carrier(width)]
        return min(0.0, shift - above) + _IDLE_KEPT * (above + max(0.0, shift - above))
