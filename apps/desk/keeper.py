"""The one model in memory: opened, measured, exchanged and closed, always in other threads. Knows no chat, no window.

Contract: used by the window's thread. While `busy`, it takes no other order but `cancel` and `close`. The old model
stays until the new one is open.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from edgespec import Notice

from .errands import Errands, Tell
from .handover import Handover
from .opening import Loaded, Means, Wanted
from .task import Stopped, Task


class Phase(Enum):
    EMPTY = "no model"
    BUSY = "busy"
    READY = "ready"
    CLOSING = "closing"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Progress:
    """What is done now, and which part of it; None where that cannot be known."""

    doing: str
    done: float | None = None


class Keeper:
    """settle: waits, in the thread of the errand, until nobody uses the model. tell, notify: for the user."""

    def __init__(
        self,
        means: Means,
        errands: Errands,
        handover: Handover,
        settle: Callable[[], None],
        tell: Tell,
        notify: Callable[[Notice], None],
    ) -> None:
        self._means = means
        self._errands = errands
        self._handover = handover
        self._settle = settle
        self._tell = tell
        self._notify = notify
        self._task: Task | None = None
        self.loaded: Loaded | None = None
        self.phase = Phase.EMPTY
        self.progress: Progress | None = None

    @property
    def ready(self) -> bool:
        return self.phase is Phase.READY

    @property
    def busy(self) -> bool:
        return self.phase in (Phase.BUSY, Phase.CLOSING)

    def open(self, wanted: Wanted) -> None:
        """Find, download if need be, and load; what is open then is closed."""
        self._begin("open", lambda task: self._open(wanted, task))

    def tune(self) -> None:
        """Measure the model with nothing of it in memory, and load it again, measured or not."""
        loaded = self.loaded
        if loaded is not None:
            self._begin("tune", lambda task: self._tune(loaded, task))

    def cancel(self) -> None:
        """Give up what is being opened, downloaded or measured."""
        if self._task is not None:
            self._task.stop()

    def close(self) -> None:
        """Give up everything and free the model; the phase is CLOSED when that is done."""
        if self.phase in (Phase.CLOSING, Phase.CLOSED):
            return
        self.phase, self.progress = Phase.CLOSING, Progress("closing")
        self.cancel()
        # What was under way hands its model over before its thread ends, so there is none to close until then.
        if self._task is None:
            self._errands.run("close", self._close, self._tell)

    # -- inside, the window's thread -----------------------------------------------------------------------------

    def _begin(self, name: str, work: Callable[[Task], None]) -> None:
        if self.busy or self.phase is Phase.CLOSED:
            return
        put = self._handover.put
        task = Task(lambda doing, done: put(lambda: self._show(Progress(doing, done))))
        self._task, self.phase, self.progress = task, Phase.BUSY, Progress("starting")

        def errand() -> None:
            try:
                with suppress(Stopped):
                    work(task)
            finally:
                put(self._end)

        self._errands.run(name, errand, self._tell)

    def _show(self, progress: Progress) -> None:
        if self.phase is Phase.BUSY:
            self.progress = progress

    def _take(self, loaded: Loaded | None) -> None:
        self.loaded = loaded

    def _end(self) -> None:
        self._task = None
        if self.phase is Phase.CLOSING:
            self._errands.run("close", self._close, self._tell)
            return
        self.phase, self.progress = (Phase.READY if self.loaded else Phase.EMPTY), None

    def _closed(self) -> None:
        self.loaded, self.phase, self.progress = None, Phase.CLOSED, None

    # -- inside, an errand's thread ------------------------------------------------------------------------------

    def _open(self, wanted: Wanted, task: Task) -> None:
        before = self.loaded
        loaded = self._means.load(self._means.find(wanted, task), task, self._heard)
        if before is not None:
            self._settle()
            before.engine.close()
        self._handover.put(lambda: self._take(loaded))

    def _tune(self, loaded: Loaded, task: Task) -> None:
        self._settle()
        loaded.engine.close()
        self._handover.put(lambda: self._take(None))
        try:
            with suppress(Stopped):
                self._means.tune(loaded.found, task, self._heard)
        finally:
            self._reload(loaded, task)

    def _reload(self, loaded: Loaded, task: Task) -> None:
        """A wish to stop was about measuring, unless the window is closed."""
        task.resume()
        if self.phase is not Phase.CLOSING:
            again = self._means.load(loaded.found, task, self._heard)
            self._handover.put(lambda: self._take(again))

    def _heard(self, notice: Notice) -> None:
        self._handover.put(lambda: self._notify(notice))

    def _close(self) -> None:
        try:
            self._settle()
            if self.loaded is not None:
                self.loaded.engine.close()
        finally:
            self._handover.put(self._closed)
