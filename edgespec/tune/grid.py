"""The settings worth trying on a machine. Plain lists; measures nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from edgespec.backend.settings import MAX_THREADS, FlashAttention, KvType, LlamaSettings
from edgespec.tune.store import Forced

# Every candidate is opened with room for the longest chunk; shorter ones are timed in the same child.
CHUNKS = (128, 256, 512)


@dataclass(frozen=True, slots=True)
class Site:
    """What there is to choose from. cores: whole ones this process may use; usable: the same with the halves of a core
    counted as cores; logical: all the system sees, which the library's defaults go by. n_ctx: tokens the candidates'
    caches hold.
    """

    cores: int
    usable: int
    logical: int
    has_gpu: bool
    n_ctx: int


def library_defaults(site: Site) -> LlamaSettings:
    """What llama-cpp-python's own class takes when only a path is given."""
    logical = min(site.logical, MAX_THREADS)
    return LlamaSettings(
        n_ctx=site.n_ctx,
        n_threads=max(logical // 2, 1),
        n_threads_batch=logical,
        flash_attention=FlashAttention.OFF,
        extra_buffers=True,
        n_gpu_layers=0,
        kv_type=KvType.F16,
        prefill_chunk=CHUNKS[-1],
    )


def candidates(site: Site, forced: Forced) -> tuple[LlamaSettings, ...]:
    """Most promising openings first; the library's defaults are always among them. With a quantised cache last, for
    show, unless it is forced.
    """
    tried = [
        replace(opening, n_threads=threads, n_threads_batch=0 if batch == threads else batch)
        for opening in _openings(site, forced)
        for threads, batch in _threads(site, forced)
    ]
    if forced.kv_type is None:
        most = replace(tried[0], flash_attention=FlashAttention.ON, kv_type=KvType.Q8_0, n_threads_batch=0)
        tried.append(replace(most, n_threads=forced.threads or site.cores))
    defaults = library_defaults(site)
    same = replace(defaults, n_threads_batch=0) if defaults.n_threads == defaults.n_threads_batch else defaults
    return tuple(dict.fromkeys([*tried, same] if same in tried else [tried[0], same, *tried[1:]]))


def defaults_among(tried: tuple[LlamaSettings, ...], site: Site) -> LlamaSettings:
    """The candidate that is the library's defaults."""
    defaults = library_defaults(site)
    return defaults if defaults in tried else replace(defaults, n_threads_batch=0)


def is_allowed(settings: LlamaSettings, forced: Forced) -> bool:
    """Whether these settings may be chosen: the library's defaults are measured in any case."""
    return (
        forced.threads in (None, settings.n_threads)
        and forced.threads in (None, settings.batch_threads)
        and forced.extra_buffers in (None, settings.extra_buffers)
        and forced.gpu_layers in (None, settings.n_gpu_layers)
        and settings.kv_type is (forced.kv_type or KvType.F16)
    )


def _openings(site: Site, forced: Forced) -> list[LlamaSettings]:
    kv_type = forced.kv_type or KvType.F16
    extra = (True, False) if forced.extra_buffers is None else (forced.extra_buffers,)
    layers: tuple[int, ...] = (-1, 0) if site.has_gpu else (0,)
    if forced.gpu_layers is not None:
        layers = (forced.gpu_layers,)
    usual = LlamaSettings(
        n_ctx=site.n_ctx, prefill_chunk=CHUNKS[-1], flash_attention=FlashAttention.ON, kv_type=kv_type
    )
    return [
        replace(usual, n_gpu_layers=n, extra_buffers=buffers, flash_attention=attention)
        for n in layers
        for buffers, attention in _ways(extra, on_gpu=n != 0)
        if kv_type is KvType.F16 or attention is not FlashAttention.OFF  # quantised values need flash attention
    ]


def _ways(extra: tuple[bool, ...], on_gpu: bool) -> list[tuple[bool, FlashAttention]]:
    """On a GPU the library knows best whether flash attention helps, so that comes first; on a CPU it is the same as
    one of the other two, so that comes last and is the first thing a short cap leaves out.
    """
    if on_gpu:
        return list(product(extra, (FlashAttention.AUTO, FlashAttention.ON, FlashAttention.OFF)))
    stated = product(extra, (FlashAttention.OFF, FlashAttention.ON))
    return [*stated, *((buffers, FlashAttention.AUTO) for buffers in extra)]


def _threads(site: Site, forced: Forced) -> list[tuple[int, int]]:
    """(plain, batch): fewer threads for wide passes than for narrow ones never help, and more than may run at a time
    wait for each other.
    """
    if forced.threads is not None:
        return [(forced.threads, forced.threads)]
    cores = min(site.cores, MAX_THREADS)
    most = max(cores, min(site.usable, MAX_THREADS))
    steps = sorted({1, max(1, cores // 2), cores, most}, key=lambda n: (n != cores, n))
    wide = {cores, most}
    return [(n, b) for n in steps for b in sorted({n} | {b for b in wide if b > n})]
