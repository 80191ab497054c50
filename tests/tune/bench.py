"""A tuning without a model: fake children, a clock that ticks when it is read, a processor nobody else uses."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edgespec.backend.cores import CoreUse
from edgespec.backend.settings import LlamaSettings
from edgespec.events import Notice
from edgespec.records import Records
from edgespec.tune.grid import Site
from edgespec.tune.search import Progress
from edgespec.tune.store import Forced
from edgespec.tune.tuner import Means, Place, tune_by
from edgespec.tune.tuning import Tuning

SITE = Site(cores=2, usable=2, logical=2, has_gpu=False, n_ctx=4096)


class Ticks:
    """Every reading is `step` seconds after the last, so that time passes with work and not with the machine's load.

    spent: a file of seconds, one a line, that have passed besides.
    """

    def __init__(self, step: float, spent: Path | None = None) -> None:
        self._step = step
        self._spent = spent
        self._ticked = 0.0
        self.now = 0.0

    def __call__(self) -> float:
        self._ticked += self._step
        besides = map(float, self._spent.read_text().split()) if self._spent and self._spent.exists() else ()
        self.now = self._ticked + sum(besides)
        return self.now


@dataclass
class Workbench:
    """Runs tunings of one imagined model; `notes` is what the children were asked, `said` what the user was told.

    times_count: the clock goes on by what the fake passes claim to take. others: cores' worth that other programs use,
    by the time on the clock.
    """

    folder: Path
    rules: tuple[str, ...] = ()
    site: Site = SITE
    forced: Forced = field(default_factory=Forced)
    step: float = 1e-6
    most_children: int = 4
    others: Callable[[float], float] = lambda _: 0.0
    times_count: bool = False
    real_time: bool = False
    program: str = sys.executable
    said: list[Notice] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ticks = Ticks(self.step, self.folder / "spent" if self.times_count else None)
        self.model.write_bytes(b"an imagined model")

    @property
    def model(self) -> Path:
        return self.folder / "model.gguf"

    @property
    def records(self) -> Records:
        return Records(self.folder / "tuning.json")

    def command(self, settings: LlamaSettings) -> Sequence[str]:
        notes = str(self.folder / "notes")
        return [self.program, "-m", "tests.tune.fake_child", settings.to_json(), notes, *self.rules]

    def notes(self) -> list[str]:
        path = self.folder / "notes"
        return path.read_text().splitlines() if path.exists() else []

    def run(
        self, cap_seconds: float = 1000.0, stop_after: int | None = None, stop_at: str | None = None
    ) -> Tuning | None:
        """stop_after: notes after which the machine is wanted back; stop_at: what the last note then has in it."""
        clock = time.monotonic if self.real_time else self.ticks
        means = Means(self.site, self.command, self.most_children, clock, lambda _: self._use)
        place = Place(self.model, "build 1", self.forced, self.records)

        def should_stop() -> bool:
            notes = self.notes()
            reached = stop_after is not None and len(notes) >= stop_after
            return reached or (stop_at is not None and any(stop_at in note for note in notes[-1:]))

        return tune_by(means, place, self.progress.append, should_stop, cap_seconds, self.said.append)

    def _use(self) -> CoreUse:
        return CoreUse(1.0, 2, 1.0, self.others(self.ticks.now))
