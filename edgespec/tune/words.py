"""Settings and reasons in words, for tables and sentences."""

from __future__ import annotations

from edgespec.backend.settings import KvType, LlamaSettings


def in_words(settings: LlamaSettings) -> str:
    """What tuning chooses among, in a few words; the length of chunks is left out."""
    parts = [_device(settings.n_gpu_layers), f"flash attention {settings.flash_attention.value}", _threads(settings)]
    if not settings.extra_buffers:
        parts.append("no extra buffers")
    if settings.kv_type is not KvType.F16:
        parts.append(f"KV cache {settings.kv_type.value}")
    return ", ".join(part for part in parts if part)


def _device(n_gpu_layers: int) -> str:
    if n_gpu_layers == 0:
        return ""
    return "GPU" if n_gpu_layers < 0 else f"{n_gpu_layers} layers on the GPU"


def _threads(settings: LlamaSettings) -> str:
    said = f"{settings.n_threads} thread{'s' if settings.n_threads > 1 else ''}"
    return said if settings.batch_threads == settings.n_threads else f"{said}, {settings.batch_threads} when drafting"
