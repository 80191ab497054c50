"""From what the user chose to a model in memory: found or fetched, loaded, and measured. Knows no window.

Contract: every function works in the thread that calls it, tells its task how far it is, and raises Stopped soon after
that task was stopped. Raises EdgeSpecErrors; nothing stays loaded then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgespec import EdgeSpecError, Engine, EngineOptions, Notice, Progress, Stage, tune_model
from edgespec.library.card import ModelCard
from edgespec.library.fetch import fetch, require_network
from edgespec.library.reporter import Reporter
from edgespec.library.repository import fetch_repository_model
from edgespec.library.resolve import Fetchers, ResolvedModel, open_library, resolve
from edgespec.library.units import readable_bytes

from .task import Task
from .why import Causes, doctor_of


@dataclass(frozen=True, slots=True)
class Wanted:
    """model: what `edgespec` takes as MODEL, None for the starter model. licence_accepted: of that very model."""

    model: str | None = None
    licence_accepted: bool = False


@dataclass(frozen=True, slots=True)
class Loaded:
    """An engine, what it was opened from, and what finds causes of little drafting in its answers."""

    engine: Engine
    found: ResolvedModel
    causes: Causes

    @property
    def name(self) -> str:
        return self.found.name


@dataclass(frozen=True, slots=True)
class Means:
    """How models get into memory and are measured. load: also gets what notices are given to."""

    find: Callable[[Wanted, Task], ResolvedModel]
    load: Callable[[ResolvedModel, Task, Callable[[Notice], None]], Loaded]
    tune: Callable[[ResolvedModel, Task, Callable[[Notice], None]], None]


def real_means(options: EngineOptions, offline: bool) -> Means:
    return Means(
        lambda wanted, task: find(wanted, offline, task),
        lambda found, task, notify: load(found, options, task, notify),
        lambda found, task, notify: tune(found, options, task, notify),
    )


def find(wanted: Wanted, offline: bool, task: Task) -> ResolvedModel:
    """On this machine, or downloaded. Raises the library's errors."""
    library, reporter = open_library(), _reporter(task)
    task.report("looking for the model")

    def fetch_card(card: ModelCard) -> Path:
        require_network(f"model {card.id}", offline)
        return fetch(card, library.store, reporter, offline=offline, licence_accepted=wanted.licence_accepted)

    fetchers = Fetchers(
        fetch_card, lambda model: fetch_repository_model(model, library.store, reporter, offline=offline)
    )
    found = resolve(wanted.model, library, fetchers)
    task.check()
    return found


def load(found: ResolvedModel, options: EngineOptions, task: Task, notify: Callable[[Notice], None]) -> Loaded:
    """Raises the engine's errors."""

    task.report(f"loading {found.name}")
    try:
        engine = Engine.open(found, options, notify, on_progress=_watching(task))
    except EdgeSpecError:
        task.check()  # what failed is only the load that was given up
        raise
    try:
        task.check()
        return Loaded(engine, found, doctor_of(engine, found.path, options))
    except BaseException:  # whatever went wrong, no model stays behind; raised again
        engine.close()
        raise


def tune(found: ResolvedModel, options: EngineOptions, task: Task, notify: Callable[[Notice], None]) -> None:
    """Measure the model and keep the result for every later load. No other program should be busy meanwhile, and no
    engine of this one open.
    """
    tune_model(found, options, _watching(task), notify)
    task.check()


def _watching(task: Task) -> Callable[[Progress], bool]:
    def on_progress(now: Progress) -> bool:
        doing = f"measuring: {now.doing}" if now.stage is Stage.TUNE else now.doing
        task.report(doing, now.share)
        return not task.stopped

    return on_progress


def _reporter(task: Task) -> Reporter:
    """Whoever downloads asks often enough, so it is where a wish to stop is obeyed."""

    def announce(line: str) -> None:
        task.report(line)
        task.check()

    def progress(n_done: int, n_total: int) -> None:
        task.report(f"downloading, {readable_bytes(n_done)} of {readable_bytes(n_total)}", n_done / max(1, n_total))
        task.check()

    return Reporter(announce, progress)
