"""A long piece of work as who waits for it sees it: what is being done, how far it is, and the wish to stop it."""

from __future__ import annotations

import threading
from collections.abc import Callable

# What is done now, and which part of it, 0 to 1; None where that cannot be known.
Report = Callable[[str, "float | None"], None]


class Stopped(Exception):
    """Raised inside the work, once it is no longer wanted."""


class Task:
    """`stop` from any thread; `report` is called in the thread that works."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._stopped = threading.Event()

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    def stop(self) -> None:
        self._stopped.set()

    def resume(self) -> None:
        """Go on with something else that belongs to it."""
        self._stopped.clear()

    def report(self, doing: str, done: float | None = None) -> None:
        self._report(doing, done)

    def check(self) -> None:
        """Raises Stopped."""
        if self.stopped:
            raise Stopped
