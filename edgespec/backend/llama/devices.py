"""The GPUs that llama.cpp would use, as its own registry of devices tells.

Reads the registry only: loads no model, and knows nothing of what a model needs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgespec.backend.llama.log import log

# `enum ggml_backend_dev_type`: memory of its own, and the host's.
_GPU, _INTEGRATED = 1, 2


@dataclass(frozen=True, slots=True)
class Device:
    """kind: of ggml's device types."""

    kind: int
    free_bytes: int


def gpu_free_bytes(devices: Callable[[], Sequence[Device]] | None = None) -> tuple[int, ...]:
    """Free memory of each GPU, in the order in which `LlamaSettings.main_gpu` counts them; () without one, or where the
    library does not say. devices: those of the registry, in its order.

    As llama.cpp chooses: integrated ones count only where there are no others.
    """
    found = (devices or _registered)()
    own = [device for device in found if device.kind == _GPU]
    return tuple(device.free_bytes for device in own or found if device.kind in (_GPU, _INTEGRATED))


def _registered() -> list[Device]:
    log()
    from llama_cpp._ctypes_extensions import load_shared_library
    from llama_cpp._ggml import libggml_base_path

    try:
        registry = load_shared_library("ggml", libggml_base_path)
        base = load_shared_library("ggml-base", libggml_base_path)
        registry.ggml_backend_dev_count.restype = ctypes.c_size_t
        registry.ggml_backend_dev_get.restype = ctypes.c_void_p
        registry.ggml_backend_dev_get.argtypes = [ctypes.c_size_t]
        base.ggml_backend_dev_type.argtypes = [ctypes.c_void_p]
        base.ggml_backend_dev_memory.argtypes = [ctypes.c_void_p, *[ctypes.POINTER(ctypes.c_size_t)] * 2]
        base.ggml_backend_dev_memory.restype = None
    except (OSError, RuntimeError, AttributeError):  # libraries named or built otherwise: nothing is known
        return []
    return [_device(base, registry.ggml_backend_dev_get(i)) for i in range(registry.ggml_backend_dev_count())]


def _device(base: ctypes.CDLL, pointer: int) -> Device:
    kind = base.ggml_backend_dev_type(pointer)
    free, total = ctypes.c_size_t(0), ctypes.c_size_t(0)
    if kind in (_GPU, _INTEGRATED):  # nobody asks for the others', and asking may start a driver
        base.ggml_backend_dev_memory(pointer, ctypes.byref(free), ctypes.byref(total))
    return Device(kind, free.value)
