"""Will a model fit? Weights, KV cache and compute buffers estimated from the GGUF header, before anything is loaded.

What a draft takes beside it is in `drafts`.
"""

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
# Bits per weight of usual files, by llama.cpp's table for models of 8B; small models take a little more.
BITS_PER_WEIGHT = (
    ("Q8_0", 8.5),
    ("Q6_K", 6.6),
    ("Q5_K_M", 5.7),
    ("Q4_K_M", 4.9),
    ("Q3_K_M", 4.0),
    ("Q2_K", 3.2),
)
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
    return estimate(header, shape).total_bytes(n_ctx) <= budget(available_bytes)


def check_memory(header: GgufHeader, n_ctx: int, shape: CacheShape, available_bytes: int) -> None:
    """Raises NotEnoughMemory that names the shortfall, and what would fit: a context, else a quantisation, if any."""
    need, most = estimate(header, shape), budget(available_bytes)
    total = need.total_bytes(n_ctx)
    if total <= most:
        return
    raise NotEnoughMemory(
        f"{header.path.name} with a context of {n_ctx} tokens needs {readable_bytes(total)}",
        f"{readable_bytes(available_bytes)} of memory are free, {readable_bytes(total - most)} too few with a margin",
        _remedy(header, need, n_ctx, most),
    )


def fitting_context(need: MemoryEstimate, n_ctx: int, room_bytes: int) -> int:
    """The longest context of at most `n_ctx` tokens, in whole steps and no shorter than two, that takes no more than
    `room_bytes`; 0 if there is none.
    """
    sizes = range(n_ctx // CONTEXT_STEP * CONTEXT_STEP, CONTEXT_STEP, -CONTEXT_STEP)
    return next((size for size in sizes if need.total_bytes(size) <= room_bytes), 0)


def budget(available_bytes: int) -> int:
    """What may be used of the free memory."""
    return int(available_bytes * (1 - MARGIN))


def _remedy(header: GgufHeader, need: MemoryEstimate, n_ctx: int, most: int) -> str:
    fitting = fitting_context(need, n_ctx, most)
    if fitting:
        return f"give --ctx-size {fitting}"
    # With the context that was asked for if it can be had, else with the shortest that is worth having.
    for size in sorted({n_ctx, min(n_ctx, 2 * CONTEXT_STEP)}, reverse=True):
        quantisation = _fitting_quantisation(header, most - (need.total_bytes(size) - need.weights_bytes))
        if quantisation:
            return f"take a {quantisation} file of the model" + (f" and --ctx-size {size}" if size < n_ctx else "")
    return "take a smaller model"


def _fitting_quantisation(header: GgufHeader, room_bytes: int) -> str:
    """The best usual quantisation whose weights take no more than `room_bytes` and less than now, "" if none does."""
    for name, bits in BITS_PER_WEIGHT:
        n_bytes = header.n_parameters * bits / 8
        if n_bytes <= room_bytes and n_bytes < header.tensor_bytes:
            return f"{name} ({readable_bytes(int(n_bytes))})"
    return ""
