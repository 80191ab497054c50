"""The network of a draft that works in turn with the target: opened when it is first wanted, shared by all requests.

One in a process of its own loads there while the engine does other things; one in this process is opened on the spot.
Used by the worker's thread, but for `hurry`. Knows no drafter.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from edgespec.backend.remote import RemoteStep
from edgespec.draft.trunk import Trunk
from edgespec.errors import EdgeSpecError
from edgespec.spec.step import StepModel


class Network:
    """make: opens the step model."""

    def __init__(self, make: Callable[[], StepModel]) -> None:
        self._make = make
        self._step: StepModel | None = None
        self._trunk: Trunk | None = None

    @property
    def is_made(self) -> bool:
        """Whether it takes memory."""
        return self._step is not None

    def open(self) -> None:
        """Begin to load it. What is wrong with it is for `trunk` to raise, where it costs no answer."""
        with suppress(EdgeSpecError):
            self.trunk()

    def trunk(self) -> Trunk | None:
        """Its cells; None while it loads. Raises what opening it raises."""
        if self._trunk is None:
            if self._step is None:
                self._step = self._make()
            if isinstance(self._step, RemoteStep) and not self._step.is_there():
                return None
            self._trunk = Trunk(self._step)
        return self._trunk

    def hurry(self, is_urgent: bool) -> None:
        """From any thread: see `RemoteStep.hurry`. A network in this process ends its call by itself."""
        step = self._step
        if isinstance(step, RemoteStep):
            step.hurry(is_urgent)

    def close(self) -> None:
        if self._step is not None:
            self._step.close()
