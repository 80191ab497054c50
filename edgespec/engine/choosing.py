"""Which settings a model is opened with: what the caller forces, what was measured, what fits into memory, what
survives a trial.

Loads no model; what was never tried is tried in a child process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from edgespec.backend import machine
from edgespec.backend.probe import proven_settings
from edgespec.backend.settings import LlamaSettings
from edgespec.config import cache_dir
from edgespec.engine.options import EngineOptions
from edgespec.events import Notice
from edgespec.library.header import GgufHeader
from edgespec.library.memory import CacheShape, check_memory, estimate, fits
from edgespec.records import Records
from edgespec.tune.store import Forced, stored_tuning
from edgespec.tune.tuning import Choice, Tuned, Tuning

Notify = Callable[[Notice], None]


def chosen_settings(
    header: GgufHeader, options: EngineOptions, library: str, has_gpu: bool, tuning: Tuning | None, notify: Notify
) -> LlamaSettings:
    """From the wishes to what will run. Raises NotEnoughMemory, and EngineFailure when no settings survive."""
    wanted = wanted_settings(header, options)
    if options.gpu_layers is None and has_gpu:
        wanted = wanted.on_gpu()
    if tuning is not None:
        wanted = tuned_settings(wanted, tuning.for_length(0))
    wanted = fitting_settings(header, wanted, machine.available_memory_bytes(), notify)
    return proven_settings(header.path, wanted, library, Records(cache_dir() / "trials.json"), notify)


def forced_by(options: EngineOptions) -> Forced:
    """What the caller leaves no choice about."""
    return Forced(options.threads, None if options.extra_buffers else False, options.gpu_layers)


def known_tuning(path: Path, library: str, options: EngineOptions, records: Records) -> Tuning | None:
    """What was measured under these wishes; for one thread also what was measured beside all of them."""
    forced = forced_by(options)
    known = stored_tuning(path, library, forced, records)
    if known is None and options.threads == 1:
        beside = stored_tuning(path, library, replace(forced, threads=None), records)
        known = beside and alone(beside)
    return known


def alone(tuning: Tuning) -> Tuning:
    """The same with one thread. Which widths agree was compared with other threads, so that is left open."""
    choices = tuple(
        Choice(one.up_to, Tuned(one_thread(one.tuned.settings), one.tuned.alone, one.tuned.alone))
        for one in tuning.choices
    )
    return replace(tuning, choices=choices, width_class=())


def one_thread(settings: LlamaSettings) -> LlamaSettings:
    return replace(settings, n_threads=1, n_threads_batch=0)


def tuned_as(settings: LlamaSettings, tuning: Tuning | None) -> Tuned | None:
    """What was measured with these settings; None if a step back has led to others. Room does not count."""
    choices = tuning.choices if tuning else ()
    return next((one.tuned for one in choices if tuned_settings(settings, one.tuned) == settings), None)


def tuned_settings(wanted: LlamaSettings, tuned: Tuned) -> LlamaSettings:
    """What was measured to be fastest, with the room that this caller wants."""
    return replace(
        tuned.settings,
        n_ctx=wanted.n_ctx,
        swa_full=wanted.swa_full,
        max_leaves=wanted.max_leaves,
        max_sequences=wanted.max_sequences,
    )


def wanted_settings(header: GgufHeader, options: EngineOptions) -> LlamaSettings:
    """Before anything is measured: the machine's cores, the model's context limit, full caches for sliding windows."""
    n_ctx = min(options.ctx_size, header.context_length or options.ctx_size)
    threads = options.threads or machine.usable_cores()
    return LlamaSettings(
        n_ctx=n_ctx,
        n_threads=threads,
        extra_buffers=options.extra_buffers,
        n_gpu_layers=options.gpu_layers or 0,
        max_sequences=options.parallel,
    )


def fitting_settings(header: GgufHeader, wanted: LlamaSettings, available_bytes: int, notify: Notify) -> LlamaSettings:
    """`wanted` if it fits, else with a small cache for sliding windows. Raises NotEnoughMemory if that does not fit."""
    full, small = cache_shape(header, wanted), cache_shape(header, wanted.windowed())
    saves = estimate(header, small).total_bytes(wanted.n_ctx) < estimate(header, full).total_bytes(wanted.n_ctx)
    if fits(header, wanted.n_ctx, full, available_bytes) or not saves:
        check_memory(header, wanted.n_ctx, full, available_bytes)
        return wanted
    check_memory(header, wanted.n_ctx, small, available_bytes)
    notify(
        Notice(
            "windowed-cache",
            "there is no memory to cache everything in the model's sliding windows, so going back in the conversation "
            "may mean reading it again",
        )
    )
    return wanted.windowed()


def cache_shape(header: GgufHeader, settings: LlamaSettings) -> CacheShape:
    """The cache that llama.cpp will make: a windowed block gets one window per sequence id and room for one pass."""
    window_cells = 0 if settings.swa_full else settings.window_cells(header.sliding_window)
    return CacheShape(settings.max_rows, window_cells, settings.kv_type.bytes_per_value)
