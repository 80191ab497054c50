"""Loading models and contexts of libllama, its log kept silent in a ring. The only module that builds its parameter
structs.

llama.cpp's log callback belongs to the whole process, so the ring does too; everything else here is a function.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import sys
from collections import deque
from collections.abc import Callable
from functools import cache
from pathlib import Path

import llama_cpp

from edgespec.backend.settings import FlashAttention, KvType, LlamaSettings
from edgespec.errors import CorruptModel, EngineFailure, NotEnoughMemory, UnsupportedModel

FLASH = {
    FlashAttention.AUTO: llama_cpp.LLAMA_FLASH_ATTN_TYPE_AUTO,
    FlashAttention.ON: llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED,
    FlashAttention.OFF: llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED,
}
KV_TYPE = {
    KvType.F16: llama_cpp.GGML_TYPE_F16,
    KvType.Q8_0: llama_cpp.GGML_TYPE_Q8_0,
    KvType.Q4_0: llama_cpp.GGML_TYPE_Q4_0,
}
Progress = Callable[[float], bool]

# Cells are handed out in multiples of 256; asking for less would be rounded up by the library anyway.
CELL_ROUNDING = 256


class Log:
    """The last lines llama.cpp logged. Silent: they are shown only as the cause of an error."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=200)
        self.callback = llama_cpp.llama_log_callback(self._append)

    def _append(self, level: int, text: bytes, _user_data: object) -> None:
        line = text.decode("utf-8", "replace").strip()
        if line and level != 1:  # 1 is debug
            self.lines.append(line)

    def reason(self) -> str:
        """The line most likely to name the cause; "failed to load model" comes last and says the least."""
        for words in (("error loading", "unknown"), ("error", "fail")):
            for line in reversed(self.lines):
                if any(word in line.lower() for word in words):
                    return line
        return self.lines[-1] if self.lines else "llama.cpp gave no reason"


@cache
def log() -> Log:
    """The process's one llama.cpp log, installed at the first call, which also initialises the library."""
    ring = Log()
    llama_cpp.llama_log_set(ring.callback, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    return ring


def library_fingerprint() -> str:
    """Tells builds of libllama apart: version, CPU features it was built for, size and time of its files."""
    log()
    files = sorted((Path(llama_cpp.__file__).parent / "lib").glob("*ggml-cpu*"))
    stamp = ",".join(f"{f.name}:{f.stat().st_size}:{int(f.stat().st_mtime)}" for f in files)
    return f"{llama_cpp.__version__}|{llama_cpp.llama_print_system_info().decode()}|{stamp}"


def supports_gpu() -> bool:
    log()
    return bool(llama_cpp.llama_supports_gpu_offload())


def load_model(path: Path, settings: LlamaSettings, progress: Progress | None = None) -> llama_cpp.llama_model_p:
    """Load a GGUF. Raises CorruptModel, UnsupportedModel or NotEnoughMemory with llama.cpp's own reason."""
    ring = log()
    ring.lines.clear()
    params = llama_cpp.llama_model_default_params()
    params.n_gpu_layers = settings.n_gpu_layers
    params.use_extra_bufts = settings.extra_buffers
    if progress is not None:
        params.progress_callback = llama_cpp.llama_progress_callback(lambda done, _data: progress(done))
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
    if not model:
        raise _load_error(path, ring.reason())
    return model


def _load_error(path: Path, reason: str) -> Exception:
    what = f"cannot load the model {path}"
    lowered = reason.lower()
    if "unknown model architecture" in lowered or "unknown pre-tokenizer" in lowered:
        return UnsupportedModel(what, reason, "use a model that this version of llama-cpp-python knows, or upgrade it")
    if "alloc" in lowered or "out of memory" in lowered:
        return NotEnoughMemory(what, reason, "close other programs or take a smaller quantisation")
    return CorruptModel(what, reason, "download the file again")


def new_context(
    model: llama_cpp.llama_model_p, settings: LlamaSettings, n_seq_max: int, abort: AbortFlag
) -> llama_cpp.llama_context_p:
    """A context with a unified KV cache for trees, and room for one verify pass beyond `settings.n_ctx`."""
    ring = log()
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = round_up(settings.n_ctx + settings.max_rows, CELL_ROUNDING)
    params.n_batch = max(settings.prefill_chunk, settings.max_rows)
    params.n_ubatch = params.n_batch
    params.n_seq_max = n_seq_max
    params.n_outputs_max = settings.max_rows
    params.n_threads = params.n_threads_batch = settings.n_threads
    params.flash_attn_type = FLASH[settings.flash_attention]
    params.type_k = params.type_v = KV_TYPE[settings.kv_type]
    params.swa_full = settings.swa_full
    params.kv_unified = True
    params.no_perf = True
    params.abort_callback = abort.callback
    params.abort_callback_data = abort.data
    context = llama_cpp.llama_init_from_model(model, params)
    if not context:
        raise NotEnoughMemory(
            f"cannot make a context of {settings.n_ctx} tokens", ring.reason(), "take a smaller --ctx-size"
        )
    return context


def round_up(n: int, step: int) -> int:
    return -(-n // step) * step


class AbortFlag:
    """A flag that libllama polls while it computes, without ever entering Python.

    The callback is C's own strlen on a two-byte buffer: length 0 means go on, length 1 means abort. A Python callback
    would take the interpreter lock once per graph node, some seven hundred times a pass.
    """

    def __init__(self) -> None:
        self._buffer = ctypes.create_string_buffer(2)
        self.data = ctypes.cast(self._buffer, ctypes.c_void_p)
        strlen = ctypes.cast(_c_library().strlen, ctypes.c_void_p).value
        if strlen is None:
            raise EngineFailure("cannot set up cancelling", "the C library has no strlen", "report this platform")
        self.callback = llama_cpp.ggml_abort_callback(strlen)

    def set(self) -> None:
        self._buffer[0] = b"\x01"

    def clear(self) -> None:
        self._buffer[0] = b"\x00"

    def is_set(self) -> bool:
        return self._buffer.raw[0] != 0


def _c_library() -> ctypes.CDLL:
    return ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
