"""How long tuning may go on: a deadline, which may be put off, and a caller who can stop it at any moment.

Reads a clock; knows no model.
"""

from __future__ import annotations

from collections.abc import Callable

Clock = Callable[[], float]


class Stopped(Exception):
    """The caller wants the machine back."""


class OutOfTime(Exception):
    """The time cap is reached."""


class Limits:
    """Counted from its making. `cap_seconds` of clock time."""

    def __init__(self, clock: Clock, cap_seconds: float, should_stop: Callable[[], bool]) -> None:
        self._clock = clock
        self._cap = cap_seconds
        self._began = clock()
        self._should_stop = should_stop
        self._granted = 0.0

    @property
    def cap_seconds(self) -> float:
        return self._cap

    def now(self) -> float:
        """Seconds since the beginning."""
        return self._clock() - self._began

    def left(self, share: float = 1.0) -> float:
        """Seconds until this share of the cap is spent; negative afterwards."""
        return self._cap * share + self._granted - self.now()

    def grant(self, seconds: float) -> None:
        """From now on so many seconds are left, however many of the cap: for what does not count towards it."""
        self._granted = 0.0
        self._granted = seconds - self.left()

    def check_stop(self) -> None:
        if self._should_stop():
            raise Stopped
