"""The settings worth trying on a machine. Plain lists; measures nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from edgespec.backend.settings import MAX_THREADS, SPLIT, FlashAttention, KvType, LlamaSettings
from edgespec.tune.store import Forced

# Every candidate is opened with room for the longest chunk; shorter ones are timed in the same child.
CHUNKS = (128, 256, 512)
# Of a GPU's free memory, how much a model may fill by the estimate: drivers and scratch buffers take some too.
GPU_SHARE = 0.9
# GPUs that are tried alone, where there are several: each costs loading the model once more.
MOST_ALONE = 2


@dataclass(frozen=True, slots=True)
class Site:
    """What there is to choose from. cores: whole ones this process may use; usable: the same with the halves of a core
    counted as cores; logical: all the system sees, which the library's defaults go by. n_ctx: tokens the candidates'
    caches hold. gpu_bytes: free memory of each GPU, as `main_gpu` counts them, () where that is not known. n_layers,
    needed_bytes: of the model, with its cache, 0 where that is not known.
    """

    cores: int
    usable: int
    logical: int
    has_gpu: bool
    n_ctx: int
    gpu_bytes: tuple[int, ...] = ()
    n_layers: int = 0
    needed_bytes: int = 0


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
    """Most promising openings first, so GPUs before the CPU; the library's defaults, on the CPU, are always among them,
    not first. With a quantised cache last, for show, unless it is forced.
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
    place = next((i for i, one in enumerate(tried) if one.n_gpu_layers == 0 and i > 0), len(tried))
    return tuple(dict.fromkeys([*tried, same] if same in tried else [*tried[:place], same, *tried[place:]]))


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
    usual = LlamaSettings(
        n_ctx=site.n_ctx, prefill_chunk=CHUNKS[-1], flash_attention=FlashAttention.ON, kv_type=kv_type
    )
    return [
        replace(usual, n_gpu_layers=n, main_gpu=gpu, extra_buffers=buffers, flash_attention=attention)
        for number, (n, gpu) in enumerate(_placements(site, forced))
        for buffers, attention in _ways(extra, on_gpu=n != 0)[: 1 if number and n else None]
        if kv_type is KvType.F16 or attention is not FlashAttention.OFF  # quantised values need flash attention
    ]


def _placements(site: Site, forced: Forced) -> list[tuple[int, int]]:
    """(layers on GPUs, main GPU), likely the fastest first. What comes after the first is tried in the library's own
    way only, which is enough to tell which device is fast.

    One GPU that holds everything needs no copies from one to the next; of several the one with most free memory is
    likely the fastest. Where all of them together hold a part, that part is tried; all layers too, since what a model
    needs is an estimate.
    """
    layers = forced.gpu_layers
    if layers == 0 or not site.has_gpu:
        return [(0 if layers is None else layers, SPLIT)]
    middle = _middle_layers(site)
    if layers is None and middle is not None:
        return [*([(middle, SPLIT)] if middle else []), (-1, SPLIT), (0, SPLIT)]
    wanted = -1 if layers is None else layers
    return [
        *((wanted, gpu) for gpu in _alone(site, wanted)),
        (wanted, SPLIT),
        *([(0, SPLIT)] if layers is None else []),
    ]


def _middle_layers(site: Site) -> int | None:
    """As many layers as all GPUs hold; None if they hold all of them, or if nothing is known."""
    room = GPU_SHARE * sum(site.gpu_bytes)
    if not room or not site.n_layers or site.needed_bytes <= room:
        return None
    return int(site.n_layers * room / site.needed_bytes)


def _alone(site: Site, layers: int) -> list[int]:
    """GPUs that hold so many layers (-1: all) by themselves, the one with most free memory first; none of a single."""
    share = layers / site.n_layers if 0 <= layers < site.n_layers else 1.0
    able = [i for i, free in enumerate(site.gpu_bytes) if site.needed_bytes * share <= GPU_SHARE * free]
    able = sorted(able, key=lambda i: -site.gpu_bytes[i])
    return able[:MOST_ALONE] if len(site.gpu_bytes) > 1 else []


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
