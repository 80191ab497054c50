"""What a worker is driven with, beside the ports of edgespec.spec."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from edgespec.backend.settings import LlamaSettings
from edgespec.engine.job import Request
from edgespec.events import Notice
from edgespec.library.header import GgufHeader
from edgespec.spec.ports import Drafter, Target
from edgespec.text.vocab import Vocabulary
from edgespec.tune.tuning import Tuned, Tuning


class Interruptible(Target, Protocol):
    """A target whose running pass can be aborted from another thread."""

    @property
    def interrupted(self) -> type[Exception]:
        """What an aborted pass raises; the cache is then as it was before the pass."""

    def interrupt(self) -> None:
        """Abort the pass that is running, or the next one. From any thread, also after `close`."""

    def resume(self) -> None:
        """Forget an interrupt."""

    def close(self) -> None:
        """Free everything; no call but `interrupt` follows."""


class Steppable(Interruptible, Protocol):
    """A target that can be told to take fewer threads, and not to take too long."""

    @property
    def late(self) -> type[Exception]:
        """What a pass beyond its limit raises; the cache is then as it was before the pass."""

    def set_threads(self, n: int, n_batch: int = 0) -> None:
        """Of passes of one row, and of wider ones: 0 for as many."""

    def limit_passes(self, seconds: float) -> None:
        """From now on a pass that takes longer is aborted, where that is possible; inf lifts the limit."""


class Reopenable(Steppable, Protocol):
    """A target that can go on with other settings."""

    @property
    def settings(self) -> LlamaSettings: ...

    def reopen(self, settings: LlamaSettings) -> None:
        """With an empty cache. Raises EdgeSpecErrors, and is then as before, but as empty."""


class Model(Protocol):
    """A loaded model with what the engine needs of it. The target is handed to the worker's thread."""

    @property
    def header(self) -> GgufHeader: ...

    @property
    def settings(self) -> LlamaSettings: ...

    @property
    def target(self) -> Reopenable: ...

    @property
    def vocab(self) -> Vocabulary: ...

    @property
    def tuning(self) -> Tuning | None:
        """What was measured of it on this machine."""

    @property
    def tuned(self) -> Tuned | None:
        """What was measured with just the settings that the target runs with."""

    def width_class(self, notify: Callable[[Notice], None]) -> tuple[int, ...]:
        """The widths an exact request stays inside. Runs in the worker's thread."""

    def agreeing_threads(self, notify: Callable[[Notice], None]) -> tuple[int, ...]:
        """The thread counts that exact answers may step among. Runs in the worker's thread."""

    def measure(self, should_stop: Callable[[], bool]) -> Tuning | None:
        """Tune it in processes of its own; None if that was stopped or disturbed. Raises EdgeSpecErrors."""


# The thread counts with which rows and prompts come out bit for bit as with the target's own; it may have to measure.
AgreeingThreads = Callable[[Callable[[Notice], None]], tuple[int, ...]]

# The drafters of one request. They must be guarded (edgespec.draft.guard): the worker takes it that they never raise.
MakeDrafters = Callable[[Request, Callable[[Notice], None]], tuple[Drafter, ...]]

# The widths that exact answers stay inside; it may have to measure them, and an interrupt ends that too.
WidthClass = Callable[[Callable[[Notice], None]], tuple[int, ...]]

# See `Worker`.
Suit = Callable[[Request, int], bool]
