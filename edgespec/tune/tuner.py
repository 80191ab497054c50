"""`tune`: one search from start to end, with what is kept of it. What the command and the engine's idle moments call.

Runs no model itself: children do.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from edgespec.backend import cores, machine
from edgespec.backend.settings import LlamaSettings
from edgespec.events import Notice
from edgespec.library.header import GgufHeader, read_header
from edgespec.library.memory import CacheShape, check_memory, estimate
from edgespec.records import Records
from edgespec.tune import grid, plan, store
from edgespec.tune.children import Children, Command, setting_command
from edgespec.tune.decide import Classes, best_chunk, cheapest_class, refined
from edgespec.tune.limits import Clock, Limits, Stopped
from edgespec.tune.passes import Passes
from edgespec.tune.result import Extras, Fates, choose_on, tuning_of
from edgespec.tune.search import Progress, Search
from edgespec.tune.store import Forced
from edgespec.tune.tuning import Tuning
from edgespec.tune.watch import SPARE_SHARE, Use, Watch

DEFAULT_CAP_SECONDS = 60.0
# The context that the engine opens when none is asked for; rows of the cache lie as far apart as they will in use.
USUAL_N_CTX = 4096
# More children than this are never asked in turns, however much memory there is.
MOST_CHILDREN = 4
# The width probe begins if it is expected to take no longer than this for a setting, and is ended after the second
# number of seconds, loading the model excepted. It comes after the search and does not count towards its cap: a probe
# cut short would overlook differences, and with the usual cap none would ever be made.
CLASSES_SECONDS = 30.0
CLASSES_MOST = 2.0 * CLASSES_SECONDS
# The notice that what was measured is not kept, and not worth using.
UNDER_LOAD = "tuned-under-load"

Notify = Callable[[Notice], None]
Report = Callable[[Progress], None]
Pids = Callable[[], Iterable[int]]


@dataclass(frozen=True, slots=True)
class Means:
    """What a tuning stands on: the machine, how children are started, a clock, and how the use of the cores is read,
    given the children whose use is our own.
    """

    site: grid.Site
    command: Command
    most_children: int
    clock: Clock
    watch_cores: Callable[[Pids], Use]


@dataclass(frozen=True, slots=True)
class Place:
    """What a tuning is about, and where it is kept."""

    path: Path
    library: str
    forced: Forced
    records: Records


def tune(
    path: Path,
    library: str,
    forced: Forced,
    on_progress: Report,
    should_stop: Callable[[], bool],
    cap_seconds: float = DEFAULT_CAP_SECONDS,
    notify: Notify = lambda _: None,
) -> Tuning | None:
    """Measure the model's settings, and keep the result unless other programs disturbed it, which `notify` is told.

    library: of `native.library_fingerprint`. cap_seconds: of the search; finding out which widths agree bit for bit
    comes after it and may take CLASSES_MOST seconds for each setting that is chosen, one or two. None when
    `should_stop` said so, which is obeyed within a fraction of a second, or nothing could be measured; what was
    finished is kept, and the next call goes on there. Raises NotEnoughMemory, EngineFailure where no process can be
    started, the errors of a damaged model file, and what the callbacks raise.
    """
    place = Place(path, library, forced, store.tuning_records())
    return tune_by(real_means(path), place, on_progress, should_stop, cap_seconds, notify)


def real_means(path: Path) -> Means:
    """This machine. Raises NotEnoughMemory when there is no room for one child, and the header's errors."""
    from edgespec.backend.llama import devices, native

    header = read_header(path)
    available = machine.available_memory_bytes()
    n_ctx = min(USUAL_N_CTX, header.context_length or USUAL_N_CTX)
    check_memory(header, n_ctx, _shape(), available)
    site = grid.Site(
        machine.usable_cores(),
        cores.n_usable(),
        os.cpu_count() or 1,
        native.supports_gpu(),
        n_ctx,
        devices.gpu_free_bytes(),
        header.block_count,
        estimate(header, _shape()).total_bytes(n_ctx),
    )
    most = _children_that_fit(header, n_ctx, available)
    return Means(site, setting_command(path), most, time.monotonic, lambda pids: cores.CoreReader(pids).use)


def tune_by(
    means: Means,
    place: Place,
    on_progress: Report,
    should_stop: Callable[[], bool],
    cap_seconds: float,
    notify: Notify,
) -> Tuning | None:
    """`tune` with everything handed in."""
    limits = Limits(means.clock, cap_seconds, should_stop)
    children = Children(means.command, limits, means.most_children)
    watch = Watch(means.watch_cores(children.pids), limits.now, SPARE_SHARE * cap_seconds)
    run = _Run(means.site, place, children, limits, watch, on_progress)
    try:
        tuning = run.measure()
    except Stopped:
        return None
    finally:
        children.close_all()
        run.leave()
    if place.records.damaged:
        notify(Notice("records-rebuilt", f"{place.records.path.name} was damaged and is made anew"))
    if tuning is None:
        notify(Notice("not-tuned", f"nothing could be measured within {cap_seconds:g} s: {run.first_fate()}"))
    elif not watch.is_quiet:
        notify(_under_load(watch.others))
    else:
        run.keep(tuning)
    return tuning


class _Run:
    def __init__(
        self,
        site: grid.Site,
        place: Place,
        children: Children,
        limits: Limits,
        watch: Watch,
        on_progress: Report,
    ) -> None:
        self._watch = watch
        self._place = place
        self._limits = limits
        self._on_progress = on_progress
        self._tried = grid.candidates(site, place.forced)
        self._defaults = grid.defaults_among(self._tried, site)
        self._sheet = store.stored_sheet(place.path, place.library, place.forced, place.records)
        threads = place.forced.threads or site.cores
        self._passes = Passes(self._sheet, threads, children, limits, watch)
        self._search = Search(self._passes, self._tried, limits, on_progress, self.keep_sheet)

    def measure(self) -> Tuning | None:
        """Raises Stopped."""
        search = self._search
        allowed = [one for one in self._tried if grid.is_allowed(one, self._place.forced)]
        search.coarse(self._defaults, allowed)
        survivors = search.curves(allowed)
        while not survivors and any(self._sheet.plain(one) and self._passes.lives(one) for one in allowed):
            survivors = search.curves(allowed)
        chosen = choose_on(self._sheet, survivors)
        if not chosen:
            return None
        different = list(dict.fromkeys(chosen))
        for one in different:
            search.alone(one)
        chunks = {one: chunk for one in different if (chunk := self._chunk(one)) is not None}
        search.fill(different)
        extras = Extras(chunks, self._exact(different))
        fates = Fates(self._passes.fates, frozenset(search.slower), self._passes.hung)
        now = datetime.now().astimezone().isoformat(timespec="seconds")
        self._on_progress(Progress(1.0, "done"))
        return tuning_of(self._sheet, self._tried, self._defaults, chosen, fates, extras, now)

    def _chunk(self, one: LlamaSettings) -> int | None:
        seconds = self._search.reading(one, grid.CHUNKS)
        return best_chunk(seconds) if len(seconds) == len(grid.CHUNKS) else None

    def _exact(self, chosen: list[LlamaSettings]) -> tuple[int, ...]:
        """The width class that serves every choice. () if one of them could not be probed in full, if the cap cut a
        curve so short that it says nothing of what a class costs, or if nothing of the run will be kept.
        """
        tables = [table for one in chosen if (table := self._sheet.table(one, plan.FULL)) is not None]
        told = [width for width in plan.COARSE if width <= self._sheet.widest]
        if not self._watch.is_quiet or any(not set(told) <= set(table.widths) for table in tables):
            return ()
        probed: list[Classes] = []
        for one in chosen:
            if () not in probed:
                probed.append(self._search.classes(one, CLASSES_SECONDS, CLASSES_MOST))
        if () in probed:
            return ()
        return cheapest_class(refined(probed), [table.steps(table.contexts[0]) for table in tables])

    def first_fate(self) -> str:
        return next(iter((*self._passes.fates.values(), *self._passes.hung.values())), "give it more time")

    def keep_sheet(self) -> None:
        """Times taken while other programs ran are not worth going on from."""
        if self._watch.is_quiet and self._sheet.contexts:
            store.save_sheet(
                self._place.path, self._place.library, self._place.forced, self._place.records, self._sheet
            )

    def leave(self) -> None:
        """At the end, however it came: keep what is known to be worth it."""
        self._passes.leave()
        self.keep_sheet()

    def keep(self, tuning: Tuning) -> None:
        place = self._place
        store.save_tuning(place.path, place.library, place.forced, place.records, tuning)
        if not tuning.is_partial:
            store.forget_sheet(place.path, place.library, place.forced, place.records)


def _under_load(others: float) -> Notice:
    return Notice(
        UNDER_LOAD,
        f"other programs used {others:.1f} cores' worth of the processor while the model was measured, so these times "
        "are not kept; tune again when they are done",
    )


def _shape() -> CacheShape:
    usual = LlamaSettings()
    return CacheShape(max(usual.max_rows, grid.CHUNKS[-1]), 0, usual.kv_type.bytes_per_value)


def _children_that_fit(header: GgufHeader, n_ctx: int, available_bytes: int) -> int:
    each = estimate(header, _shape()).total_bytes(n_ctx)
    return max(1, min(MOST_CHILDREN, int(0.9 * available_bytes) // each))
