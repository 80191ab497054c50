"""Settings, and who uses them, in words, for tables and sentences."""

from __future__ import annotations

from edgespec.backend.settings import SPLIT, KvType, LlamaSettings
from edgespec.tune.store import Forced


def in_words(settings: LlamaSettings) -> str:
    """What tuning chooses among, in a few words; the length of chunks is left out."""
    parts = [_device(settings), f"flash attention {settings.flash_attention.value}", _threads(settings)]
    if not settings.extra_buffers:
        parts.append("no extra buffers")
    if settings.kv_type is not KvType.F16:
        parts.append(f"KV cache {settings.kv_type.value}")
    return ", ".join(part for part in parts if part)


def users(forced: Forced) -> str:
    """Which programs find what was measured under these wishes."""
    if forced.kv_type is not None:
        return "It is there to compare with: no program asks for a type of the KV cache."
    numbers = {"threads": forced.threads, "gpu_layers": forced.gpu_layers}
    asked = {name: number for name, number in numbers.items() if number is not None}
    if forced.extra_buffers is not None:
        options = ", ".join(f"{name}={value}" for name, value in {**asked, "extra_buffers": False}.items())
        return f"Only Python programs that open the engine with EngineOptions({options}) use it."
    if asked:
        flags = " ".join(f"--{name.replace('_', '-')} {number}" for name, number in asked.items())
        return f"Later starts with {flags} use it, and no others."
    return "Later starts that force neither --threads nor --gpu-layers use it."


def _device(settings: LlamaSettings) -> str:
    if settings.n_gpu_layers == 0:
        return ""
    name = "GPU" if settings.main_gpu == SPLIT else f"GPU {settings.main_gpu}"
    return name if settings.n_gpu_layers < 0 else f"{settings.n_gpu_layers} layers on the {name}"


def _threads(settings: LlamaSettings) -> str:
    said = f"{settings.n_threads} thread{'s' if settings.n_threads > 1 else ''}"
    return said if settings.batch_threads == settings.n_threads else f"{said}, {settings.batch_threads} when drafting"
