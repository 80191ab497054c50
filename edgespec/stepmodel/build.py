"""Makes the files of a step model from a GGUF: `model.onnx`, `embedding.npy` and, for a trimmed head, `head_ids.npy`.

A file appears under its name when all of it is written. Knows nothing of the folder around them and does not write
`step.json`; it returns what belongs there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np

from edgespec.errors import BadInput
from edgespec.spec.ports import IntArray
from edgespec.stepfile import EMBEDDING, GRAPH, HEAD_IDS, RopeTable, StepFile
from edgespec.stepmodel.define import define
from edgespec.stepmodel.emit_onnx import emit_onnx
from edgespec.stepmodel.gguf_file import read_weights
from edgespec.stepmodel.weights import Weights

# Rows of the token table that are written between two reports of progress: some 20 MB.
CHUNK_ROWS = 8192


class Stage(str, Enum):
    READ = "reading the weights"
    GRAPH = "writing the graph"
    EMBEDDING = "writing the token table"


Progress = Callable[[Stage, float], None]


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """layers: block numbers to keep; None for all. head_ids: ids that keep their head rows; None for all. n_ranked:
    tokens a run returns per row. rows: the row counts that runs will have. n_ctx: cells at most; the model's own
    context is never exceeded. source_fingerprint: how the caller tells files apart.
    """

    layers: tuple[int, ...] | None = None
    head_ids: tuple[int, ...] | None = None
    n_ranked: int = 16
    rows: tuple[int, ...] = (1, 8)
    n_ctx: int = 4096
    source_fingerprint: str = ""
    notes: str = ""


def build_step(source: Path, folder: Path, options: BuildOptions, progress: Progress | None = None) -> StepFile:
    """Write the step model of the GGUF `source` into the existing `folder`.

    progress: told the stage and how much of it is done, 0 to 1; what it raises ends the work, and no
    half-written file is left. Raises BadInput for ids that no token has, what `read_weights` raises, and OSError.
    """
    tell = progress or (lambda _stage, _done: None)
    tell(Stage.READ, 0.0)
    weights = read_weights(source, options.layers, lambda done, n: tell(Stage.READ, done / n))
    head_ids = _checked(options.head_ids, weights.vocabulary.n_vocab)
    tell(Stage.GRAPH, 0.0)
    model = emit_onnx(define(weights, options.n_ranked, head_ids))
    _write(folder / GRAPH, lambda path: path.write_bytes(model))
    tell(Stage.GRAPH, 1.0)
    _write(folder / EMBEDDING, lambda path: _write_embedding(path, weights, tell))
    if head_ids is not None:
        _write(folder / HEAD_IDS, lambda path: _save(path, head_ids))
    return facts(weights, options)


def facts(weights: Weights, options: BuildOptions) -> StepFile:
    return StepFile(
        architecture=weights.architecture,
        source_name=weights.name,
        source_fingerprint=options.source_fingerprint,
        layers=tuple(block.number for block in weights.blocks),
        n_vocab=weights.vocabulary.n_vocab,
        width=weights.width,
        n_heads=weights.n_heads,
        n_kv_heads=weights.n_kv_heads,
        head_dim=weights.head_dim,
        n_blocks=len(weights.blocks),
        embedding_scale=weights.embedding_scale,
        rope=tuple(RopeTable(one.base, one.n_dims, one.factor) for one in weights.ropes),
        n_ranked=options.n_ranked,
        rows=options.rows,
        n_ctx=min(options.n_ctx, weights.n_ctx),
        token_hash=weights.vocabulary.token_hash,
        notes=options.notes,
        sliding_window=weights.window,
    )


def _checked(head_ids: Sequence[int] | None, n_vocab: int) -> IntArray | None:
    """Ascending, each once."""
    if head_ids is None:
        return None
    ids = np.unique(np.asarray(head_ids, dtype=np.int64))
    if not len(ids) or ids[0] < 0 or ids[-1] >= n_vocab:
        raise BadInput(f"a vocabulary of {len(ids)} tokens", f"ids are 0 to {n_vocab - 1}", "choose ids among them")
    return ids.astype(np.int32)


def _write_embedding(path: Path, weights: Weights, tell: Progress) -> None:
    """float16: rounds far less than the products' 8-bit inputs, at half the size."""
    n_vocab = weights.vocabulary.n_vocab
    table = np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=(n_vocab, weights.width))
    for start in range(0, n_vocab, CHUNK_ROWS):
        tell(Stage.EMBEDDING, start / n_vocab)
        stop = min(start + CHUNK_ROWS, n_vocab)
        table[start:stop] = weights.embedding(start, stop)
    table.flush()
    tell(Stage.EMBEDDING, 1.0)


def _save(path: Path, ids: IntArray) -> None:
    with path.open("wb") as stream:
        np.save(stream, ids)


def _write(path: Path, write: Callable[[Path], object]) -> None:
    temporary = path.with_name(f".{path.name}.part")
    try:
        write(temporary)
        os.replace(temporary, path)
    finally:
        with suppress(OSError):  # Windows may still hold the mapping of a write that was broken off
            temporary.unlink(missing_ok=True)
