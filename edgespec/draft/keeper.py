"""Starts draft workers, sees when one hangs, and pauses before it starts another.

A worker that hung or could not open its network is given up: nothing is asked of it any more, and should its call ever
return, it closes its network and ends. Knows no text and no draft.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from edgespec.draft.growth import Clock
from edgespec.draft.messages import Stopped
from edgespec.draft.worker import DraftWorker
from edgespec.errors import EngineFailure
from edgespec.spec.step import StepModel

# One call of a network: a chunk of a long prompt on a slow machine takes seconds. Beyond this it is stuck.
HANG_SECONDS = 20.0
# Loading and compiling a network from a slow disk.
OPEN_SECONDS = 120.0
# Before a given-up network is opened again: a draft that always fails costs little, a hiccup is soon forgotten.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 10.0, 600.0
# Calls that went well before the pauses start over.
_FORGIVEN_STEPS = 256


class Keeper:
    """worker: the present one, None after it was given up. `factory` opens the network, in the worker's thread.

    n_given_up: workers that were. rows_at_once: as for `Ahead`.
    """

    def __init__(
        self,
        factory: Callable[[], StepModel],
        clock: Clock,
        hang_seconds: float = HANG_SECONDS,
        open_seconds: float = OPEN_SECONDS,
        rows_at_once: int = 1,
    ) -> None:
        self.worker: DraftWorker | None = None
        self.n_given_up = 0
        self._factory = factory
        self._clock = clock
        self._hang_seconds = hang_seconds
        self._open_seconds = open_seconds
        self._rows_at_once = rows_at_once
        self._again_at = -inf
        self._pause = FIRST_PAUSE_SECONDS
        self._n_steps_before = 0

    @property
    def n_steps(self) -> int:
        """Calls of the network that ended well, by all workers so far."""
        return self._n_steps_before + (self.worker.n_steps if self.worker else 0)

    def start(self) -> None:
        """Have a worker, unless the last one was given up a short while ago."""
        if self.worker is not None:
            if self.worker.n_steps >= _FORGIVEN_STEPS:
                self._pause = FIRST_PAUSE_SECONDS
        elif self._clock() >= self._again_at:
            self.worker = DraftWorker(self._factory, self._clock, self._rows_at_once)

    def hung(self) -> EngineFailure | None:
        """Why the worker must be given up, if it must."""
        if self.worker is None:
            return None
        # The limit first: a network that opens in between must not be measured by the shorter one.
        limit = self._hang_seconds if self.worker.is_open else self._open_seconds
        since = self.worker.busy_since
        if since is None or self._clock() - since <= limit:
            return None
        return EngineFailure(
            "the draft network",
            f"it has given no answer for {limit:g} s",
            "the answer goes on without it; if this happens again, choose another draft or '--draft off'",
        )

    def give_up(self) -> None:
        """Waits for nothing."""
        self._dismiss()
        self.n_given_up += 1
        self._again_at = self._clock() + self._pause
        self._pause = min(2.0 * self._pause, LONGEST_PAUSE_SECONDS)

    def close(self) -> None:
        """Let the worker free its network, and start none any more. Waits for a call under way, but not if it hangs."""
        worker = self.worker
        self._again_at = inf
        self._dismiss()
        if worker is not None:
            worker.join(self._hang_seconds)

    def _dismiss(self) -> None:
        worker, self.worker = self.worker, None
        if worker is not None:
            self._n_steps_before += worker.n_steps
            worker.order(Stopped())
