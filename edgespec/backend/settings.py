"""The engine settings a target is opened with. Plain data: imports no engine, so that child processes and caches can
use it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from enum import Enum

from edgespec.errors import BadInput
from edgespec.spec.ports import USUAL_SEQUENCES

# llama.cpp's own limits: it throws or aborts beyond them.
MAX_IDS = 256
MAX_THREADS = 512
MAX_CELLS = 1 << 30
# The most devices that llama.cpp knows what to do with.
MAX_GPUS = 16
# As `main_gpu`: the library's own way of using several GPUs.
SPLIT = -1
# llama.cpp hands out cells in such multiples, whatever it is asked for.
CELL_ROUNDING = 256


class FlashAttention(str, Enum):
    AUTO = "auto"
    ON = "on"
    OFF = "off"


class KvType(str, Enum):
    F16 = "f16"
    Q8_0 = "q8_0"
    Q4_0 = "q4_0"

    @property
    def bytes_per_value(self) -> float:
        """Quantised types keep 32 values and a 16-bit scale in a block."""
        return {KvType.F16: 2.0, KvType.Q8_0: 34 / 32, KvType.Q4_0: 18 / 32}[self]


@dataclass(frozen=True, slots=True)
class LlamaSettings:
    """How llama.cpp runs a model. `n_ctx` is what all sequences together may fill; a verify pass has room beyond it.

    extra_buffers: weight repacking and AMX. swa_full: sliding-window layers get as many cells as the others, so that
    rewinds need no re-reading; else they get one window per sequence id. n_gpu_layers: 0 keeps the model on the CPU, -1
    offloads every layer. max_leaves: leaves of one draft tree. max_sequences: sequences that may have such trees at the
    same time; the engine keeps no more of them. n_threads_batch: for passes of two rows and more,
    0 for as many as `n_threads`. main_gpu: the one that holds all offloaded layers, counted from 0; SPLIT shares them
    out among all GPUs. Raises BadInput for values that cannot work.
    """

    n_ctx: int = 4096
    n_threads: int = 1
    flash_attention: FlashAttention = FlashAttention.OFF
    extra_buffers: bool = True
    n_gpu_layers: int = 0
    kv_type: KvType = KvType.F16
    swa_full: bool = True
    prefill_chunk: int = 256
    max_rows: int = 32
    max_leaves: int = 8
    max_sequences: int = USUAL_SEQUENCES
    n_threads_batch: int = 0
    main_gpu: int = SPLIT

    def __post_init__(self) -> None:
        _within("n_ctx", self.n_ctx, 1, MAX_CELLS)
        _within("n_threads", self.n_threads, 1, MAX_THREADS)
        _within("n_threads_batch", self.n_threads_batch, 0, MAX_THREADS)
        _within("n_gpu_layers", self.n_gpu_layers, -1, MAX_CELLS)
        _within("main_gpu", self.main_gpu, SPLIT, MAX_GPUS - 1)
        _within("prefill_chunk", self.prefill_chunk, 1, MAX_CELLS)
        _within("max_rows", self.max_rows, 1, MAX_CELLS)
        _within("max_leaves", self.max_leaves, 1, MAX_IDS)
        _within("max_sequences", self.max_sequences, 1, MAX_IDS)
        _within("max_sequences * max_leaves", self.n_ids, 1, MAX_IDS)
        if self.kv_type is not KvType.F16 and self.flash_attention is FlashAttention.OFF:
            raise BadInput(
                f"a KV cache of type {self.kv_type.value}",
                "llama.cpp keeps quantised values only with flash attention",
                "turn flash attention on, or keep the cache at f16",
            )

    @property
    def n_ids(self) -> int:
        """Sequence ids of llama.cpp: each leaf of a tree needs one while it is verified."""
        return self.max_sequences * self.max_leaves

    @property
    def batch_threads(self) -> int:
        """Threads of passes of two rows and more."""
        return self.n_threads_batch or self.n_threads

    @property
    def n_cells(self) -> int:
        """Cells of a cache that sees everything: a verify pass has room beyond the context."""
        return _round_up(self.n_ctx + self.max_rows)

    def window_cells(self, n_swa: int) -> int:
        """Cells of a cache for a sliding window of `n_swa` tokens: all, or a window per id and room for one pass."""
        if self.swa_full:
            return self.n_cells
        return _round_up(min(self.n_cells, n_swa * self.n_ids + max(self.prefill_chunk, self.max_rows)))

    def on_gpu(self) -> LlamaSettings:
        """Every layer offloaded; flash attention left to the library, which knows what the device can do."""
        return replace(self, n_gpu_layers=-1, flash_attention=FlashAttention.AUTO)

    def on_cpu(self) -> LlamaSettings:
        """The same without the GPU; what `on_gpu` left to the library is decided again."""
        chosen = self.flash_attention
        if chosen is FlashAttention.AUTO and self.kv_type is KvType.F16:
            chosen = FlashAttention.OFF
        return replace(self, n_gpu_layers=0, main_gpu=SPLIT, flash_attention=chosen)

    def windowed(self) -> LlamaSettings:
        """A small cache for sliding-window layers. It grows with every id, so every sequence gets one: chains only."""
        return replace(self, swa_full=False, max_leaves=1)

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> LlamaSettings:
        raw = json.loads(text)
        raw["flash_attention"] = FlashAttention(raw["flash_attention"])
        raw["kv_type"] = KvType(raw["kv_type"])
        return cls(**raw)


def loading_of(settings: LlamaSettings) -> tuple[bool, int, int]:
    """How weights are kept, and where: what is decided when they are loaded."""
    return settings.extra_buffers, settings.n_gpu_layers, settings.main_gpu


def loaded_alike(a: LlamaSettings, b: LlamaSettings) -> bool:
    """Whether one loaded model serves both."""
    return loading_of(a) == loading_of(b)


def _round_up(n_cells: int) -> int:
    return -(-n_cells // CELL_ROUNDING) * CELL_ROUNDING


def _within(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise BadInput(f"{name} {value}", f"llama.cpp takes {least} to {most}", "choose a value in between")


def retreats(settings: LlamaSettings) -> list[LlamaSettings]:
    """`settings` and then ever safer variants of them, in the order in which to try: GPU off, then extra buffers
    off.
    """
    ladder = [settings]
    if settings.n_gpu_layers != 0:
        ladder.append(settings.on_cpu())
    if settings.extra_buffers:
        ladder.append(replace(ladder[-1], extra_buffers=False))
    return ladder
