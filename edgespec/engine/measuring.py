"""A program's way to measure a model on this machine, as `edgespec tune` does. Runs no model itself: children do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from edgespec.engine.choosing import forced_by
from edgespec.engine.finding import find_model
from edgespec.engine.opening import require_language_model
from edgespec.engine.options import EngineOptions
from edgespec.engine.progress import OnProgress, Progress, Stage
from edgespec.errors import EngineFailure
from edgespec.events import Notice
from edgespec.library.header import read_header
from edgespec.library.resolve import ResolvedModel
from edgespec.tune.search import Progress as Searched
from edgespec.tune.tuning import Tuning

# As `edgespec tune` has it.
DEFAULT_CAP_SECONDS = 60.0


def tune_model(
    model: str | Path | ResolvedModel | None = None,
    options: EngineOptions | None = None,
    on_progress: OnProgress | None = None,
    on_notice: Callable[[Notice], None] = lambda _notice: None,
    cap_seconds: float = DEFAULT_CAP_SECONDS,
) -> Tuning | None:
    """Measure the settings that run `model` fastest and what passes cost, for engines opened with these `options`.

    It takes up to `cap_seconds` for the search and a minute more, in processes of its own; the caller waits. The result
    is kept and used by every later `Engine.open`, unless other programs were busy meanwhile, which `on_notice` hears.
    None when `on_progress` returned False: what was finished is kept, and the next call goes on there. Raises
    EngineFailure when nothing could be measured, and what `Engine.open` raises.
    """
    found = model if isinstance(model, ResolvedModel) else find_model(model, on_progress)
    require_language_model(read_header(found.path))

    from edgespec.backend.llama.native import library_fingerprint
    from edgespec.tune.tuner import tune

    watch, notices = _Watch(on_progress), list[Notice]()

    def notify(notice: Notice) -> None:
        notices.append(notice)
        on_notice(notice)

    forced = forced_by(options or EngineOptions())
    tuning = tune(found.path, library_fingerprint(), forced, watch.report, watch.given_up, cap_seconds, notify)
    if tuning is None and not watch.given_up():
        why = notices[-1].message if notices else "nothing could be measured"
        raise EngineFailure(f"cannot tune {found.name}", why, "give it more time")
    return tuning


class _Watch:
    """The caller's wish to stop, which it says when it is told how far things are."""

    def __init__(self, on_progress: OnProgress | None) -> None:
        self._on_progress = on_progress
        self._stopped = False

    def report(self, now: Searched) -> None:
        if self._on_progress is not None and not self._stopped:
            self._stopped = self._on_progress(Progress(Stage.TUNE, now.done, 1.0, now.doing)) is False

    def given_up(self) -> bool:
        return self._stopped
