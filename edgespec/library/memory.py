"""Will a model fit? Weights, KV cache and compute buffers estimated from the GGUF header, before anything is loaded."""

from __future__ import annotations

from dataclasses import dataclass

from edgespec.errors import NotEnoughMemory
from edgespec.library.header import GgufHeader
from edgespec.library.units import readable_bytes

# Scratch of the graph, the interpreter and its libraries: measured 90 to 160 MB over models of 0.1 to 1 GB.
FIXED_BYTES = 192 << 20
# Leave this part of the free memory to everything else, so that the machine never starts to swap for an answer.
MARGIN = 0.1
# Contexts are proposed in steps of this many tokens, and none below twice as many.
CONTEXT_STEP = 256
# Every n-th block sees the whole text, the others a window, in models whose file leaves it to llama.cpp to know. A
# block that is not known to be windowed counts as a full one, so that the estimate is never too low.
FULL_BLOCK_EVERY = {"cohere2": 4, "gemma2": 2, "gemma3": 6, "gemma3n": 5, "gpt-oss": 2, "mellum": 4, "olmo2": 4}


@dataclass(frozen=True, slots=True)
class CacheShape:
    """What the KV cache is made of, beside the length of the context.

    n_rows: logits rows of the widest pass. window_cells: cells of each block with a sliding window, 0 for as many as
    the context has tokens. bytes_per_value: of keys and values, 2.0 for 16-bit floats.
    """

    n_rows: int
    window_cells: int = 0
    bytes_per_value: float = 2.0


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """bytes_per_token: in the blocks that see the whole text. bytes_per_window_cell: in all others together."""

    weights_bytes: int
    bytes_per_token: int
    bytes_per_window_cell: int
    window_cells: int
    buffers_bytes: int

    def total_bytes(self, n_ctx: int) -> int:
        n_window = min(n_ctx, self.window_cells) if self.window_cells else n_ctx
        cache = self.bytes_per_token * n_ctx + self.bytes_per_window_cell * n_window
        return self.weights_bytes + cache + self.buffers_bytes


def estimate(header: GgufHeader, shape: CacheShape) -> MemoryEstimate:
    """Logits rows are kept as float32 twice, in the graph and on the host."""
    per_head = shape.bytes_per_value * (header.key_length + header.value_length)
    heads = _heads_kv(header)
    windowed = [is_windowed(header, block) for block in range(len(heads))]
    return MemoryEstimate(
        header.tensor_bytes,
        round(per_head * sum(n for n, window in zip(heads, windowed, strict=True) if not window)),
        round(per_head * sum(n for n, window in zip(heads, windowed, strict=True) if window)),
        shape.window_cells,
        FIXED_BYTES + 2 * 4 * header.n_vocab * shape.n_rows,
    )


def is_windowed(header: GgufHeader, block: int) -> bool:
    """Whether a block is known to attend to a sliding window only."""
    if header.sliding_window == 0:
        return False
    stated = header.values.get(f"{header.architecture}.attention.sliding_window_pattern")
    if isinstance(stated, tuple):
        return block < len(stated) and bool(stated[block])
    every = stated if isinstance(stated, int) else FULL_BLOCK_EVERY.get(header.architecture, 1)
    return every == 0 or block % every < every - 1


def _heads_kv(header: GgufHeader) -> list[int]:
    """Key-value heads of each block."""
    counts = list(header.head_counts_kv or (header.head_count,))
    return counts if len(counts) > 1 else counts * header.block_count


def fits(header: GgufHeader, n_ctx: int, shape: CacheShape, available_bytes: int) -> bool:
    return estimate(header, shape).total_bytes(n_ctx) <= _budget(available_bytes)


def check_memory(header: GgufHeader, n_ctx: int, shape: CacheShape, available_bytes: int) -> None:
    """Raises NotEnoughMemory that names the shortfall and a context size that would fit, if there is one."""
    need, budget = estimate(header, shape), _budget(available_bytes)
    total = need.total_bytes(n_ctx)
    if total <= budget:
        return
    sizes = range(n_ctx // CONTEXT_STEP * CONTEXT_STEP, CONTEXT_STEP, -CONTEXT_STEP)
    fitting = next((size for size in sizes if need.total_bytes(size) <= budget), None)
    raise NotEnoughMemory(
        f"{header.path.name} with a context of {n_ctx} tokens needs {readable_bytes(total)}",
        f"{readable_bytes(available_bytes)} of memory are free, {readable_bytes(total - budget)} too few with a margin",
        f"give --ctx-size {fitting}" if fitting else "take a smaller model or quantisation",
    )


def _budget(available_bytes: int) -> int:
    return int(available_bytes * (1 - MARGIN))
