"""Will a model fit? Weights, KV cache and compute buffers estimated from the GGUF header, before anything is loaded."""

from __future__ import annotations

from dataclasses import dataclass

from edgespec.errors import NotEnoughMemory
from edgespec.library.header import GgufHeader
from edgespec.library.units import readable_bytes

# llama.cpp keeps K and V as 16-bit floats unless told otherwise.
KV_BYTES_PER_VALUE = 2
# Scratch of the graph, the interpreter and its libraries: measured 90 to 160 MB over models of 0.1 to 1 GB.
FIXED_BYTES = 192 << 20
# Leave this part of the free memory to everything else, so that the machine never starts to swap for an answer.
MARGIN = 0.1


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    weights_bytes: int
    kv_bytes_per_token: int
    buffers_bytes: int

    def total_bytes(self, n_ctx: int) -> int:
        return self.weights_bytes + self.kv_bytes_per_token * n_ctx + self.buffers_bytes


def estimate(header: GgufHeader, n_rows: int) -> MemoryEstimate:
    """n_rows: logits rows of the widest pass, kept as float32 twice (in the graph and on the host)."""
    per_token = KV_BYTES_PER_VALUE * (header.key_length + header.value_length) * _kv_heads(header)
    logits = 2 * 4 * header.n_vocab * n_rows
    return MemoryEstimate(header.tensor_bytes, per_token, FIXED_BYTES + logits)


def _kv_heads(header: GgufHeader) -> int:
    """Key-value heads of all blocks together."""
    counts = header.head_counts_kv or (header.head_count,)
    return sum(counts) if len(counts) > 1 else counts[0] * header.block_count


def check_memory(header: GgufHeader, n_ctx: int, n_rows: int, available_bytes: int) -> None:
    """Raises NotEnoughMemory that names the shortfall and a context size that would fit, if there is one."""
    need = estimate(header, n_rows)
    budget = int(available_bytes * (1 - MARGIN))
    total = need.total_bytes(n_ctx)
    if total <= budget:
        return
    fits = (budget - need.total_bytes(0)) // max(1, need.kv_bytes_per_token)
    remedy = f"give --ctx-size {fits // 256 * 256}" if fits >= 512 else "take a smaller model or quantisation"
    raise NotEnoughMemory(
        f"{header.path.name} with a context of {n_ctx} tokens needs {readable_bytes(total)}",
        f"{readable_bytes(available_bytes)} of memory are free, {readable_bytes(total - budget)} too few with a margin",
        remedy,
    )
