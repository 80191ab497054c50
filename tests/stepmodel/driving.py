"""Drives a graph, interpreted or emitted, the way a runtime does: cells, positions, masks and rotary tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgespec.spec.ports import FloatArray, IntArray
from edgespec.stepmodel.emit_onnx import emit_onnx
from edgespec.stepmodel.graph import Graph
from edgespec.stepmodel.weights import Rope, Weights

Value = npt.NDArray[np.generic]
Run = Callable[[Mapping[str, FloatArray]], dict[str, Value]]
HIDDEN = np.float32(-1e9)


@dataclass(frozen=True, slots=True)
class Ran:
    """Outputs of a run. new: the rows' own keys and values, by name."""

    ids: IntArray
    logits: FloatArray
    log_sums: FloatArray
    new: dict[str, FloatArray]

    def by_row(self) -> FloatArray:
        """The logits of a fully ranked head in the order of its rows."""
        found: FloatArray = np.take_along_axis(self.logits, np.argsort(self.ids, axis=1), axis=1)
        return found


class Driver:
    """A cache of `n_cells` cells over one graph. Cells form a tree; each row continues a cell or starts a text."""

    def __init__(self, weights: Weights, run: Run, n_cells: int = 64) -> None:
        self._weights, self._run, self._n_cells = weights, run, n_cells
        shape = (weights.n_kv_heads, n_cells, weights.head_dim)
        self._cache = {
            f"past_{kind}_{i}": np.zeros(shape, dtype=np.float32)
            for i in range(len(weights.blocks))
            for kind in ("k", "v")
        }
        self._parents: list[int] = []

    def run(self, tokens: Sequence[int], parents: Sequence[int] | None = None) -> Ran:
        """Appends rows. parents: the cell that each continues, -1 for none; None: the one before it."""
        start, n = len(self._parents), len(tokens)
        self._parents += range(start - 1, start - 1 + n) if parents is None else parents
        rows = range(start, start + n)
        found = self._run({**self._inputs(tokens, rows), **self._cache})
        for name, cells in self._cache.items():
            cells[:, start : start + n] = found[name.replace("past", "new")]
        ids = np.asarray(found["ids"], dtype=np.int32)
        floats = {name: np.asarray(value, dtype=np.float32) for name, value in found.items() if name != "ids"}
        return Ran(ids, floats.pop("logits"), floats.pop("log_sums"), floats)

    def _inputs(self, tokens: Sequence[int], rows: range) -> dict[str, FloatArray]:
        weights = self._weights
        table = np.concatenate([weights.embedding(token, token + 1) for token in tokens])
        found = {"x": table * np.float32(weights.embedding_scale)}
        depths = np.array([len(self._line(cell)) - 1 for cell in rows])
        for rope, suffix in zip(weights.ropes, ("", "_local"), strict=False):
            found[f"cos{suffix}"], found[f"sin{suffix}"] = turns(rope, depths)
            seen = self._seen(rows, weights.window if suffix else 1 << 30)
            found[f"mask{suffix}"] = np.full((len(rows), self._n_cells), HIDDEN)
            found[f"mask{suffix}"][:, : rows.start] = seen[:, : rows.start]
            found[f"own_mask{suffix}"] = seen[:, rows.start :]
        return found

    def _seen(self, rows: range, window: int) -> FloatArray:
        mask = np.full((len(rows), rows.stop), HIDDEN)
        for i, cell in enumerate(rows):
            mask[i, self._line(cell)[:window]] = 0
        return mask

    def _line(self, cell: int) -> list[int]:
        """The cell and its ancestors, nearest first."""
        line = [cell]
        while self._parents[line[-1]] >= 0:
            line.append(self._parents[line[-1]])
        return line


def turns(rope: Rope, positions: IntArray) -> tuple[FloatArray, FloatArray]:
    pairs = np.arange(rope.n_dims // 2)
    angles = positions[:, None] / rope.factor * rope.base ** (-2 * pairs / rope.n_dims)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


class Emitted:
    """A graph in ONNX Runtime, one thread. Outputs by name."""

    def __init__(self, model: bytes | Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        source = model if isinstance(model, bytes) else str(model)
        self._session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        self.inputs = [port.name for port in self._session.get_inputs()]
        self._names = [port.name for port in self._session.get_outputs()]

    @classmethod
    def of(cls, graph: Graph) -> Emitted:
        return cls(emit_onnx(graph))

    def run(self, inputs: Mapping[str, FloatArray]) -> dict[str, Value]:
        return dict(zip(self._names, self._session.run(None, dict(inputs)), strict=True))
