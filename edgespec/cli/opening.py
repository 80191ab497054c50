"""Opens a model for a command: found or fetched, progress shown, Ctrl-C obeyed without leaving half a model."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from rich.status import Status

from edgespec.cli.downloads import ensure_model
from edgespec.cli.options import ModelFlags, engine_options
from edgespec.cli.screen import Screen
from edgespec.engine import Engine, EngineOptions, Extras
from edgespec.engine.progress import Progress
from edgespec.errors import EdgeSpecError
from edgespec.library.resolve import ResolvedModel


@dataclass(frozen=True, slots=True)
class OpenedModel:
    """`name` is what the model is called on the screen."""

    engine: Engine
    name: str


def open_model(model: str | None, flags: ModelFlags, screen: Screen, extras: Extras | None = None) -> OpenedModel:
    """Find and load. Raises EdgeSpecErrors and KeyboardInterrupt; nothing stays loaded then."""
    return load_model(find_model(model, flags, screen), engine_options(flags), screen, extras)


def find_model(model: str | None, flags: ModelFlags, screen: Screen) -> ResolvedModel:
    """Fetched if need be, after a question about its licence if it asks for one. Raises the library's errors."""
    engine_options(flags)  # values that cannot be are said before anything is downloaded
    return ensure_model(model, offline=flags.offline, console=screen.console)


def load_model(
    found: ResolvedModel,
    options: EngineOptions,
    screen: Screen,
    extras: Extras | None = None,
) -> OpenedModel:
    """Raises the engine's errors, and KeyboardInterrupt; nothing stays loaded then."""
    with screen.console.status(f"loading {found.name}") as status:
        loading = Loading(status)
        with loading.holding_ctrl_c():
            try:
                engine = Engine.open(found, options, screen.notice, extras, loading.progress)
            except EdgeSpecError:
                if loading.interrupted:  # what failed is only the load that we gave up
                    raise KeyboardInterrupt from None
                raise
        if loading.interrupted:
            engine.close()
            raise KeyboardInterrupt
    return OpenedModel(engine, found.name)


class Loading:
    """A load in progress. Until the library begins, Ctrl-C raises; inside its callback an exception would be lost,
    so from then on the wish is kept in `interrupted` and ends the load.
    """

    def __init__(self, status: Status) -> None:
        self.interrupted = False
        self._begun = False
        self._status = status

    def progress(self, now: Progress) -> bool:
        """Shown; False gives up."""
        self._begun = True
        self._status.update(f"{now.doing} {now.share:.0%}")
        return not self.interrupted

    @contextmanager
    def holding_ctrl_c(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():  # only the main thread gets signals
            yield
            return
        previous = signal.signal(signal.SIGINT, self._pressed)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, previous)

    def _pressed(self, _signal: int, _frame: FrameType | None) -> None:
        if not self._begun:
            raise KeyboardInterrupt
        self.interrupted = True
