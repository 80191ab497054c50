"""Loading models and contexts of libllama. The only module that builds its parameter structs."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from pathlib import Path

import llama_cpp

from edgespec.backend.llama.log import log
from edgespec.backend.llama.support import require_support
from edgespec.backend.settings import SPLIT, FlashAttention, KvType, LlamaSettings
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


def library_fingerprint() -> str:
    """Tells builds of libllama apart: version, CPU features it was built for, size and time of its files."""
    log()
    files = sorted((Path(llama_cpp.__file__).parent / "lib").glob("*ggml-cpu*"))
    stamp = ",".join(f"{f.name}:{f.stat().st_size}:{int(f.stat().st_mtime)}" for f in files)
    return f"{llama_cpp.__version__}|{llama_cpp.llama_print_system_info().decode()}|{stamp}"


def supports_gpu() -> bool:
    log()
    return bool(llama_cpp.llama_supports_gpu_offload())


class LoadedModel:
    """Owns a model of libllama. After `free`, asking for its pointer is an error instead of a crash."""

    def __init__(self, pointer: llama_cpp.llama_model_p) -> None:
        self._pointer = pointer

    @property
    def pointer(self) -> llama_cpp.llama_model_p:
        if self._pointer is None:
            raise EngineFailure("cannot use the model", "it has been closed", "open it again")
        return self._pointer

    def free(self) -> None:
        """Freeing twice is harmless. Contexts over the model must be gone before."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            llama_cpp.llama_model_free(pointer)


def load_model(path: Path, settings: LlamaSettings, progress: Progress | None = None) -> LoadedModel:
    """Load a GGUF; nothing stays loaded after an error.

    `progress` gets the loaded part, 0 to 1, and returns False to give up. Raises CorruptModel, UnsupportedModel or
    NotEnoughMemory with llama.cpp's own reason, EngineFailure when given up, and what `progress` raises.
    """
    ring = log()
    ring.forget()
    watch = _Watch(progress)
    params = llama_cpp.llama_model_default_params()
    params.n_gpu_layers = settings.n_gpu_layers
    if settings.main_gpu != SPLIT:
        params.split_mode, params.main_gpu = llama_cpp.LLAMA_SPLIT_MODE_NONE, settings.main_gpu
    params.use_extra_bufts = settings.extra_buffers
    params.progress_callback = llama_cpp.llama_progress_callback(watch.report)
    pointer = llama_cpp.llama_model_load_from_file(os.fsencode(path), params)
    model = LoadedModel(pointer) if pointer else None
    try:
        watch.settle(path)
        if model is None:
            raise _load_error(path, ring.reason())
        require_support(path, model.pointer)
    except BaseException:  # also Ctrl-C: a loaded model is never left behind; raised again
        if model is not None:
            model.free()
        raise
    return model


class _Watch:
    """Carries a load's progress to its caller, and the caller's wish or exception back past the library."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._given_up = False
        self._error: BaseException | None = None

    def report(self, done: float, _data: object) -> bool:
        try:
            self._given_up = self._progress is not None and not self._progress(done)
        except BaseException as error:  # ctypes would print it and go on; `settle` raises it again
            self._error = error
        return not self._given_up and self._error is None

    def settle(self, path: Path) -> None:
        if self._error is not None:
            raise self._error
        if self._given_up:
            raise EngineFailure(f"did not load the model {path}", "loading was given up", "open it again to go on")


def _load_error(path: Path, reason: str) -> Exception:
    what = f"cannot load the model {path}"
    lowered = reason.lower()
    if "main_gpu" in lowered:
        return EngineFailure(what, reason, "a GPU that it was measured on is gone: run 'edgespec tune'")
    if any(word in lowered for word in ("unknown", "only supports", "invalid ggml type")):
        return UnsupportedModel(what, reason, "use a model that this version of llama-cpp-python knows, or upgrade it")
    if _speaks_of_memory(lowered):
        return NotEnoughMemory(what, reason, "close other programs or take a smaller quantisation")
    return CorruptModel(what, reason, "download the file again")


def _speaks_of_memory(reason: str) -> bool:
    return any(word in reason for word in ("alloc", "memory"))


def new_context(
    model: LoadedModel, settings: LlamaSettings, n_seq_max: int, abort: AbortFlag | None
) -> llama_cpp.llama_context_p:
    """A context with a unified KV cache for trees, and room for one verify pass beyond `settings.n_ctx`.

    abort: None lets every pass run to its end. Raises NotEnoughMemory, UnsupportedModel or EngineFailure.
    """
    ring = log()
    ring.forget()
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = settings.n_cells
    params.n_batch = max(settings.prefill_chunk, settings.max_rows)
    params.n_ubatch = params.n_batch
    params.n_seq_max = n_seq_max
    # The library keeps an output row for every sequence id, and aborts at the first pass when this is below.
    params.n_outputs_max = max(settings.max_rows, n_seq_max)
    params.n_threads, params.n_threads_batch = settings.n_threads, settings.batch_threads
    params.flash_attn_type = FLASH[settings.flash_attention]
    params.type_k = params.type_v = KV_TYPE[settings.kv_type]
    params.swa_full = settings.swa_full
    params.kv_unified = True
    params.no_perf = True
    if abort is not None:
        params.abort_callback = abort.callback
        params.abort_callback_data = abort.data
    context = llama_cpp.llama_init_from_model(model.pointer, params)
    if not context:
        raise _context_error(settings, ring.reason())
    if not llama_cpp.llama_get_memory(context):
        llama_cpp.llama_free(context)
        raise UnsupportedModel("cannot answer with this model", "it keeps no memory of a text", "choose another one")
    return context


def _context_error(settings: LlamaSettings, reason: str) -> Exception:
    what = f"cannot make a context of {settings.n_ctx} tokens"
    if _speaks_of_memory(reason.lower()):
        return NotEnoughMemory(what, reason, "take a smaller --ctx-size")
    return EngineFailure(what, reason, "see 'edgespec doctor'")


class AbortFlag:
    """A flag that libllama polls while it computes, without ever entering Python. There are two reasons to raise it:
    somebody's wish, which stands until it is cleared, and one pass' deadline.

    The callback is C's own strlen on a two-byte buffer: length 0 means go on, length 1 means abort. A Python callback
    would take the interpreter lock once per graph node, some seven hundred times a pass.
    """

    def __init__(self) -> None:
        self._buffer = ctypes.create_string_buffer(2)
        self.data = ctypes.cast(self._buffer, ctypes.c_void_p)
        strlen = ctypes.cast(_c_library().strlen, ctypes.c_void_p).value
        if strlen is None:
            raise EngineFailure("cannot set up cancelling", "the C library has no strlen", "report this platform")
        self._wished = False
        self.expired = False  # the running pass is out of time
        self.callback = llama_cpp.ggml_abort_callback(strlen)

    def set(self) -> None:
        """From any thread, also inside a signal handler: it takes no lock."""
        self._wished = True
        self._buffer[0] = b"\x01"

    def clear(self) -> None:
        self._wished = False
        self._lower()

    def is_set(self) -> bool:
        """Whether somebody wishes it, whatever a deadline says."""
        return self._wished

    def expire(self) -> None:
        """End the running pass."""
        self.expired = True
        self._buffer[0] = b"\x01"

    def take_expired(self) -> bool:
        """Whether the pass that has ended was out of time; forgets it. No deadline may be running."""
        if not self.expired:
            return False
        self.expired = False
        self._lower()
        return True

    def _lower(self) -> None:
        if not self._wished and not self.expired:
            self._buffer[0] = b"\x00"
            if self._wished:  # wished for in between, when the flag was up already
                self._buffer[0] = b"\x01"


def _c_library() -> ctypes.CDLL:
    return ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
