"""Measures a model in the moments when nothing is asked of it. Knows when to measure, not how.

Contract: `measure` runs in a thread of its own, is told to stop as soon as something is asked, and goes on in the next
idle moment where it stopped. What it finds is handed over once. No answer waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from edgespec.errors import EdgeSpecError, EngineFailure
from edgespec.tune.tuning import Tuning

# Between two questions of one conversation people read and type; measuring begins when they seem to have stopped.
PATIENCE_SECONDS = 2.0
# Where undisturbed attempts find nothing, other programs keep the machine busy: it is not measured for ever.
MOST_ATTEMPTS = 5

ShouldStop = Callable[[], bool]
Measure = Callable[[ShouldStop], Tuning | None]


class IdleTuner:
    """quiet: set while nothing is asked; its owner clears it the moment a request comes. on_tuned: gets the result."""

    def __init__(
        self,
        measure: Measure,
        quiet: threading.Event,
        on_tuned: Callable[[Tuning], None],
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._measure = measure
        self._quiet = quiet
        self._on_tuned = on_tuned
        self._patience_seconds = patience_seconds
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="edgespec-idle-tuner", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End measuring, and wait until its processes are gone."""
        self._closing.set()
        self._quiet.set()  # it may be waiting for that
        self._thread.join()

    def _run(self) -> None:
        n_attempts = 0
        while n_attempts < MOST_ATTEMPTS and self._wait_for_quiet():
            visit = _Visit(self._disturbed)
            try:
                found = self._measure(visit.should_stop)
            except (EngineFailure, OSError):  # no process could be started just now, or no file read
                found = None
            except EdgeSpecError:  # answers are made without it as before; 'edgespec tune' says what is wrong
                return
            if found is not None and not self._closing.is_set():
                self._on_tuned(found)
                return
            n_attempts += not visit.stopped

    def _disturbed(self) -> bool:
        return self._closing.is_set() or not self._quiet.is_set()

    def _wait_for_quiet(self) -> bool:
        """Until nothing has been asked for as long as the patience lasts; False when it is over."""
        while not self._closing.is_set():
            self._quiet.wait()
            self._closing.wait(self._patience_seconds)
            if not self._disturbed():
                return True
        return False


class _Visit:
    """One attempt; it stays stopped, also when the question that stopped it has been answered meanwhile."""

    def __init__(self, disturbed: Callable[[], bool]) -> None:
        self.stopped = False
        self._disturbed = disturbed

    def should_stop(self) -> bool:
        self.stopped = self.stopped or self._disturbed()
        return self.stopped
