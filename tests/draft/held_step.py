"""A step model between a worker and a test: the test says when each call may go on, and what becomes of its result."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from edgespec.spec.ports import IntArray
from edgespec.spec.step import Ranked, StepLimits, StepModel

Before = Callable[[int], None]
After = Callable[[int, Ranked], Ranked]

# A test that waits longer for another thread has failed, however busy the machine is.
PATIENCE_SECONDS = 60.0


def until(holds: Callable[[], bool]) -> None:
    """Wait for another thread."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.0002)


def at_once(_: int) -> None:
    """Hold nothing."""


def as_it_is(_: int, ranked: Ranked) -> Ranked:
    return ranked


class HeldStep:
    """`before(n)` is called in the worker's thread before the n-th call, `after(n, ranked)` makes its result."""

    def __init__(self, inner: StepModel, before: Before = at_once, after: After = as_it_is) -> None:
        self.name = inner.name
        self.limits: StepLimits = inner.limits
        self.n_calls = 0
        self.n_closed = 0
        self.threads: set[int] = set()
        self._inner = inner
        self._before = before
        self._after = after

    def run(self, tokens: IntArray, start: int, parents: IntArray | None = None) -> Ranked:
        n_call = self._called()
        return self._after(n_call, self._inner.run(tokens, start, parents))

    def read(self, tokens: IntArray, start: int) -> None:
        self._called()
        self._inner.read(tokens, start)

    def keep(self, cells: IntArray, start: int) -> None:
        self.threads.add(threading.get_ident())
        self._inner.keep(cells, start)

    def close(self) -> None:
        self.n_closed += 1
        self._inner.close()

    def _called(self) -> int:
        self.threads.add(threading.get_ident())
        n_call, self.n_calls = self.n_calls, self.n_calls + 1
        self._before(n_call)
        return n_call


class Turnstile:
    """Calls pass one by one as they are let through. `arrived` counts those that have come to it."""

    def __init__(self) -> None:
        self.arrived = 0
        self._changed = threading.Condition()
        self._n_let = 0
        self._is_open = False

    def __call__(self, n_call: int) -> None:
        with self._changed:
            self.arrived += 1
            place = self.arrived
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._is_open or place <= self._n_let, PATIENCE_SECONDS)

    @property
    def is_full(self) -> bool:
        """Somebody waits who may not pass."""
        return not self._is_open and self.arrived > self._n_let

    def let(self, n: int) -> None:
        """Let n more calls through, also ones yet to come."""
        with self._changed:
            self._n_let += n
            self._changed.notify_all()

    def open(self) -> None:
        with self._changed:
            self._is_open = True
            self._changed.notify_all()

    def wait_for(self, n: int) -> None:
        """Until n calls have come."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.arrived >= n, PATIENCE_SECONDS)
