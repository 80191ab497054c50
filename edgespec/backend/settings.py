"""The engine settings a target is opened with. Plain data: imports no engine, so that child processes and caches can
use it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from enum import Enum


class FlashAttention(str, Enum):
    AUTO = "auto"
    ON = "on"
    OFF = "off"


class KvType(str, Enum):
    F16 = "f16"
    Q8_0 = "q8_0"
    Q4_0 = "q4_0"


@dataclass(frozen=True, slots=True)
class LlamaSettings:
    """How llama.cpp runs a model. `n_ctx` is what a sequence may fill; the target allocates a verify width more.

    extra_buffers: weight repacking and AMX. swa_full: full-size cache for sliding-window layers, so that any rewind
    is valid.
    n_gpu_layers: 0 keeps the model on the CPU, -1 offloads every layer. max_leaves: leaves of one draft tree.
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
    max_sequences: int = 4

    def on_gpu(self) -> LlamaSettings:
        """Every layer offloaded; flash attention left to the library, which knows what the device can do."""
        return replace(self, n_gpu_layers=-1, flash_attention=FlashAttention.AUTO)

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> LlamaSettings:
        raw = json.loads(text)
        raw["flash_attention"] = FlashAttention(raw["flash_attention"])
        raw["kv_type"] = KvType(raw["kv_type"])
        return cls(**raw)


def retreats(settings: LlamaSettings) -> list[LlamaSettings]:
    """`settings` and then ever safer variants of them, in the order in which to try: GPU off, then extra buffers
    off.
    """
    ladder = [settings]
    if settings.n_gpu_layers != 0:
        ladder.append(replace(ladder[-1], n_gpu_layers=0))
    if settings.extra_buffers:
        ladder.append(replace(ladder[-1], extra_buffers=False))
    return ladder
