"""Whether other programs disturb a tuning: the use of the cores, judged window by window while it runs.

Knows no child and no model; reads what it is handed.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from edgespec.backend.cores import CoreUse

Use = Callable[[], CoreUse]
Clock = Callable[[], float]

# Cores' worth that others may use in a window, however many cores there are: threads meet at barriers, so the one that
# has to share its core slows them all. A browser at rest takes less; decoding tolerates the same.
TOLERATED_CORES = 0.3
# Counters go in ticks of 10 ms on every core, so a shorter window may be wrong by what is tolerated.
WINDOW_SECONDS = 0.5
# Disturbed windows may take this part of the time cap: what was timed in them is timed again. Beyond, nothing is.
SPARE_SHARE = 0.1


class Window(Enum):
    """OPEN: too short to be judged yet."""

    OPEN = "open"
    QUIET = "quiet"
    DISTURBED = "disturbed"


class Watch:
    """is_quiet: until disturbed windows have taken more than `spare_seconds`, and never again. others: cores' worth
    that other programs used in those windows, on average; 0 without one.
    """

    def __init__(self, use: Use, now: Clock, spare_seconds: float) -> None:
        self._use = use
        self._now = now
        self._spare_seconds = spare_seconds
        self._began = now()
        self._seconds = 0.0
        self._taken = 0.0

    @property
    def is_quiet(self) -> bool:
        return self._seconds <= self._spare_seconds

    @property
    def others(self) -> float:
        return self._taken / self._seconds if self._seconds else 0.0

    def look(self) -> Window:
        """Judge what happened since the last window was judged. A system without counters disturbs nothing."""
        seconds = self._now() - self._began
        if seconds < WINDOW_SECONDS:
            return Window.OPEN
        self._began += seconds
        others = self._others()
        if others <= TOLERATED_CORES:
            return Window.QUIET
        self._seconds += seconds
        self._taken += others * seconds
        return Window.DISTURBED

    def ended_quietly(self) -> bool:
        """Judge the last window, however short it is."""
        return self._others() <= TOLERATED_CORES

    def _others(self) -> float:
        others = self._use().others
        return 0.0 if others is None else others
