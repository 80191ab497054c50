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


class Model(Protocol):
    """A loaded model with what the engine needs of it. The target is handed to the worker's thread."""

    @property
    def header(self) -> GgufHeader: ...

    @property
    def settings(self) -> LlamaSettings: ...

    @property
    def target(self) -> Interruptible: ...

    @property
    def vocab(self) -> Vocabulary: ...

    def width_class(self, notify: Callable[[Notice], None]) -> tuple[int, ...]:
        """The widths an exact request stays inside. Runs in the worker's thread."""


# The drafters of one request. They must be guarded (edgespec.draft.guard): the worker takes it that they never raise.
MakeDrafters = Callable[[Request, Callable[[Notice], None]], tuple[Drafter, ...]]

# The widths that exact answers stay inside; it may have to measure them, and an interrupt ends that too.
WidthClass = Callable[[Callable[[Notice], None]], tuple[int, ...]]
