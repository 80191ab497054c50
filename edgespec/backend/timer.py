"""A time limit for work that is done in steps, looked at between two of them. Knows nothing of the work."""

from __future__ import annotations

from collections.abc import Callable

Clock = Callable[[], float]


class TimeOver(Exception):
    """The work may go on no longer."""


class Timer:
    """Counts from its making."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._began = clock()
        self._seconds = seconds

    @property
    def spent(self) -> float:
        """Seconds."""
        return self._clock() - self._began

    def check(self) -> None:
        """Raises TimeOver when more than the limit is spent."""
        if self.spent > self._seconds:
            raise TimeOver
