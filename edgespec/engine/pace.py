"""How many threads the next pass gets: fewer at once when others take the cores, more when the cores are seen free.

llama.cpp's threads spin at barriers. When one of them has to wait for a core, all wait, some hundred times a pass: two
threads on two cores become a hundred times slower beside one busy program, a single one hardly slower at all. So the
steps are few, all threads, half of them, one, and the last one is where every doubt leads.

Contract: a state machine over numbers handed in. Clock-free; knows no target, no counters, and nothing of text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from edgespec.backend.cores import CoreUse
from edgespec.engine.levels import Level
from edgespec.engine.passtimes import CONTEXT_GRAIN, PassTimes

# A pass this much beyond its expected time is given up: what noise and a hot machine do stays well below.
LATE = 4.0
# A limit that proved too low is doubled, up to this.
_MOST_SLACK = 64.0
# Passes shorter than this say nothing: a process may lose a core for some milliseconds on an idle machine.
_LEAST_LIMIT_SECONDS = 0.02

# Cores' worth that others may use of those that the threads want. A browser at rest takes less.
_TOLERATED = 0.3
# Slower than fewer threads would be, or than this when nobody knows: then fewer threads are better.
_SLOW_AGAINST_FEWER = 1.1
_SLOW_AGAINST_SELF = 1.6
# A longer window without passes began before this answer did.
_RECENT_SECONDS = 1.0
# Processor time per wall time of a thread that runs undisturbed is 1.
_STARVED = 0.8

# Seconds of free cores before threads are raised; doubled with every try that fails, but full speed must be back
# within 3 seconds of the others' end.
_CALM_SECONDS = 0.5
_LONGEST_CALM_SECONDS = 2.0
# A failed try costs up to `LATE` passes: it is not made again before so many times what it cost, so a tenth at most is
# lost to tries. With a model of 20 ms a pass that stays within the longest calm.
_CALM_PER_LOST = 10.0
# A raise that lasted so long has succeeded.
_SETTLED_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class PaceStatus:
    """Threads of the next pass and of an undisturbed one; cores' worth that others took over the last window, None
    when unknown; passes that were given up and repeated; times that threads were taken back.
    """

    n_threads: int
    n_wanted: int
    n_cores: int
    taken: float | None
    n_aborted: int
    n_steps_down: int


@dataclass(slots=True)
class _Window:
    """Sums over the passes since the counters were last read. Expected seconds are inf once one was unknown."""

    seconds: float = 0.0
    expected: float = 0.0
    fewer: float = 0.0


class Pace:
    """levels: from `ladder`, most threads first. `level` is what the next pass shall run with."""

    def __init__(self, levels: Seq[Level]) -> None:
        self._levels = tuple(levels)
        self._times = [PassTimes(level.table) for level in levels]
        self._usable = tuple(range(len(levels)))
        self._index = 0
        self._slack = 1.0
        self._window = _Window()
        self._calm = 0.0
        self._calm_needed = _CALM_SECONDS
        self._since_raise = math.inf
        self._n_cores = 0
        self._taken: float | None = None
        self._n_aborted = 0
        self._n_steps_down = 0
        self._held_up = False
        self._passes: list[tuple[int, int, float]] = []  # of single rounds, not booked yet
        self._limits: dict[tuple[int, int], float] = {}  # by rows and length of the text, as long as nothing moves

    @property
    def level(self) -> Level:
        return self._levels[self._index]

    @property
    def wanted(self) -> Level:
        return self._levels[0]

    @property
    def lowest(self) -> Level:
        return self._levels[-1]

    @property
    def stepped_down(self) -> bool:
        return self._index > 0

    @property
    def frozen(self) -> bool:
        return len(self._usable) == 1

    @property
    def undisturbed(self) -> bool:
        """It is at its first level and would not step down."""
        return not self._index and not self._held_up

    @property
    def status(self) -> PaceStatus:
        return PaceStatus(
            self.level.most, self.wanted.most, self._n_cores, self._taken, self._n_aborted, self._n_steps_down
        )

    # -- who may step -----------------------------------------------------------------------------------------------

    def restrict(self, counts: Collection[int]) -> None:
        """Only levels whose thread counts are all among `counts`, which agree with each other, and the first level.
        When a count of the first one is not among them, none agrees with it.
        """
        allowed = frozenset(counts) if self.wanted.counts <= frozenset(counts) else frozenset()
        self._usable = tuple(i for i, level in enumerate(self._levels) if i == 0 or level.counts <= allowed)
        self._limits.clear()
        if self._index not in self._usable:
            self._move(0)

    def unrestrict(self) -> None:
        self._held_up = False
        self._limits.clear()
        self._usable = tuple(range(len(self._levels)))

    # -- passes -----------------------------------------------------------------------------------------------------

    def verify_limit(self, rows: int, context: int) -> float:
        """Seconds after which a pass is given up; inf for one that must run to its end."""
        if self.level.table is None:
            self._book()
            return self._verify_limit(rows, context)
        place = rows, context // CONTEXT_GRAIN
        known = self._limits.get(place)
        if known is None:
            known = self._limits[place] = self._verify_limit(rows, context)
        return known

    def _verify_limit(self, rows: int, context: int) -> float:
        return self._limit(self._expected(PassTimes.verify_seconds, rows, context)) if self._can_drop else math.inf

    def extend_limit(self, n_tokens: int, context: int) -> float:
        return self._limit(self._expected(PassTimes.extend_seconds, n_tokens, context)) if self._can_drop else math.inf

    @property
    def _can_drop(self) -> bool:
        last = len(self._levels) - 1
        return self._index < last and self._usable[-1] == last

    def _expected(self, look_up: Callable[[PassTimes, int, int], float], size: int, context: int) -> float:
        """Seconds at this level; where it has not been seen, as much work by the threads of another one."""
        own = look_up(self._times[self._index], size, context)
        if own < math.inf:
            return own
        most = self.level.most
        others = zip(self._levels, self._times, strict=True)
        return min(look_up(times, size, context) * max(1.0, level.most / most) for level, times in others)

    def _limit(self, seconds: float) -> float:
        return max(_LEAST_LIMIT_SECONDS, seconds * LATE * self._slack)

    def verified(self, rows: int, context: int, seconds: float) -> None:
        """Is booked before anything is decided: after a pass every line costs ten times what it does in a loop."""
        self._passes.append((rows, context, seconds))

    def _book(self) -> None:
        """All passes of this level that are not booked yet."""
        times = self._times[self._index]
        fewest = self._times[-1] if self._index != len(self._times) - 1 else None
        for rows, context, seconds in self._passes:
            fewer = fewest.verify_seconds(rows, context) if fewest is not None else 0.0
            self._passed(seconds, times.verify_seconds(rows, context), fewer)
            times.observe_verify(rows, seconds)
        self._passes.clear()

    def extended(self, n_tokens: int, context: int, seconds: float) -> None:
        times = self._times[self._index]
        fewer = self._times[-1].extend_seconds(n_tokens, context) if self._index != len(self._times) - 1 else 0.0
        self._passed(seconds, times.extend_seconds(n_tokens, context), fewer)
        times.observe_extend(n_tokens, seconds)

    def _passed(self, seconds: float, expected: float, fewer: float) -> None:
        window = self._window
        window.seconds += seconds
        window.expected += expected
        window.fewer += fewer
        self._since_raise += seconds

    def gave_up(self, seconds: float) -> None:
        """A pass was given up after `seconds`; it is to be repeated with the lowest level."""
        self._book()
        self._n_aborted += 1
        self._fail(seconds)
        self._move(len(self._levels) - 1)

    def repeated(self, seconds: float, limit: float, own_seconds: float) -> None:
        """The pass that was given up after `limit` took one thread `seconds`, `own_seconds` of them on a core.

        If it took longer than the limit although nobody took its core, the cores were not to blame but the limit.
        """
        if seconds > limit and own_seconds >= _STARVED * seconds:
            self._slack = min(_MOST_SLACK, self._slack * 2.0)
            self._limits.clear()
            self._calm_needed = _CALM_SECONDS

    # -- the counters -----------------------------------------------------------------------------------------------

    def used(self, use: CoreUse) -> None:
        """What the counters say about the time since the last call: decides."""
        self._book()
        window, self._window = self._window, _Window()
        if use.seconds <= 0.0:
            return
        self._n_cores, self._taken = use.n_cores, use.others
        self._held_up = self.frozen and len(self._levels) > 1 and not _fits(self.level, use)
        if self.frozen:
            return
        if self._since_raise > _SETTLED_SECONDS and self._index == 0:
            self._calm_needed = _CALM_SECONDS
        if self._must_drop(window, use):
            self._fail(0.0)
            self._move(next(i for i in self._usable if i > self._index))
        elif self._index:
            self._consider_raise(window, use)

    def _must_drop(self, window: _Window, use: CoreUse) -> bool:
        """Cores are taken that the threads want, and it shows."""
        if self._index == self._usable[-1] or _fits(self.level, use):
            return False
        if use.seconds > _RECENT_SECONDS and window.seconds < 0.5 * use.seconds:
            return False  # what others did while nothing was asked says nothing about now
        if window.fewer < math.inf and window.seconds:
            return window.seconds > _SLOW_AGAINST_FEWER * window.fewer
        if window.expected < math.inf and window.seconds:
            return window.seconds > _SLOW_AGAINST_SELF * window.expected
        return True  # nothing is known of these passes, so the counters alone decide

    def _consider_raise(self, window: _Window, use: CoreUse) -> None:
        undisturbed = min(self.level.counts) * window.seconds / use.seconds
        above = [i for i in self._usable if i < self._index and _fits(self._levels[i], use)]
        if not above or use.own < _STARVED * undisturbed:
            self._calm = 0.0
            return
        self._calm += use.seconds
        # A system that does not count is asked by trying, as seldom as one whose tries fail.
        if self._calm >= (_LONGEST_CALM_SECONDS if use.others is None else 0.0) and self._calm >= self._calm_needed:
            self._move(above[0])
            self._since_raise = 0.0

    def _fail(self, lost_seconds: float) -> None:
        if self._since_raise <= _SETTLED_SECONDS:
            doubled = min(_LONGEST_CALM_SECONDS, 2.0 * self._calm_needed)
            self._calm_needed = max(doubled, _CALM_PER_LOST * lost_seconds)
        self._since_raise = math.inf

    def _move(self, index: int) -> None:
        self._book()
        self._limits.clear()
        self._n_steps_down += index > self._index
        self._index = index
        self._calm = 0.0
        self._window = _Window()


def _fits(level: Level, use: CoreUse) -> bool:
    """Whether others leave it room. Whoever wants more threads than there are cores shall have them, too."""
    return use.room is None or use.room >= min(level.most, use.n_cores) - _TOLERATED
