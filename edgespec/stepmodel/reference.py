"""The plain twin of every emitter: interprets the neutral graph with numpy, operation by operation, in float32."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from edgespec.spec.ports import FloatArray
from edgespec.stepmodel import graph as g
from edgespec.stepmodel.matrix import dequantised

Value = npt.NDArray[np.generic]
Values = dict[str, FloatArray]


class Reference:
    """A graph that can be run. Its matrices are dequantised once, so it is meant for small models and for checks."""

    def __init__(self, graph: g.Graph) -> None:
        self._graph = graph
        self._matrices = {name: dequantised(matrix) for name, matrix in graph.matrices.items()}

    def run(self, inputs: Mapping[str, FloatArray]) -> dict[str, Value]:
        """The outputs by name: `ids` int32, the others float32. Raises ValueError for inputs of other shapes."""
        graph = self._graph
        n_rows, n_cells = inputs["mask"].shape
        for port in graph.inputs:
            if inputs[port.name].shape != port.shape(n_rows, n_cells):
                raise ValueError(f"{port.name} is {inputs[port.name].shape}, not {port.shape(n_rows, n_cells)}")
        values: Values = dict(inputs)
        for node in graph.nodes:
            self._run(node, values)
        found: dict[str, Value] = {port.name: values[port.name] for port in graph.outputs}
        return {**found, "ids": found["ids"].astype(np.int32)}

    def _run(self, node: g.Node, values: Values) -> None:
        match node:
            case g.Linear(x, matrix, out):
                values[out] = values[x] @ self._matrices[matrix].T
            case g.AddVector(x, vector, out):
                values[out] = values[x] + self._graph.vectors[vector]
            case g.Norm(x, weight, eps, out):
                values[out] = _norm(values[x], self._graph.vectors[weight], eps)
            case g.AddNorm(x, y, weight, eps, total, out):
                values[total] = values[x] + values[y]
                values[out] = _norm(values[total], self._graph.vectors[weight], eps)
            case g.Rotate(x, cos, sin, out):
                values[out] = _rotated(values[x], values[cos], values[sin])
            case g.Scores(query, key, out):
                values[out] = values[query] @ self._shared(values[key]).transpose(0, 2, 1)
            case g.Mix(shares, value, out):
                values[out] = values[shares] @ self._shared(values[value])
            case _:
                _run_plain(node, values)

    def _shared(self, heads: FloatArray) -> FloatArray:
        """Keys or values once per query head."""
        return np.repeat(heads, self._graph.n_heads // self._graph.n_kv_heads, axis=0)


def _run_plain(node: g.Node, values: Values) -> None:
    """Elementwise operations and those over a row."""
    match node:
        case g.Add(x, y, out):
            values[out] = values[x] + values[y]
        case g.Multiply(x, y, out):
            values[out] = values[x] * values[y]
        case g.Scale(x, factor, out):
            values[out] = values[x] * np.float32(factor)
        case g.Silu(x, out):
            values[out] = values[x] * (1 + np.tanh(values[x] / 2)) / 2
        case g.Gelu(x, out):
            values[out] = _gelu(values[x])
        case g.AddMask(x, mask, out):
            values[out] = values[x] + values[mask]
        case g.Softmax(x, out):
            raised = np.exp(values[x] - values[x].max(axis=-1, keepdims=True))
            values[out] = raised / raised.sum(axis=-1, keepdims=True)
        case g.LogSumExp(x, out):
            most = values[x].max(axis=-1, keepdims=True)
            values[out] = (most + np.log(np.exp(values[x] - most).sum(axis=-1, keepdims=True)))[..., 0]
        case g.Top(x, k, best, columns):
            order = np.argsort(-values[x], axis=-1, kind="stable")[:, :k]
            values[columns] = order.astype(np.float32)  # exact below 2 ** 24 columns
            values[best] = np.take_along_axis(values[x], order, axis=-1)
        case _:
            _run_moving(node, values)


def _run_moving(node: g.Node, values: Values) -> None:
    """What changes shapes alone."""
    match node:
        case g.Join(parts, out):
            values[out] = np.concatenate([values[part] for part in parts], axis=-1)
        case g.SplitColumns(x, sizes, outs):
            values.update(zip(outs, np.split(values[x], np.cumsum(sizes)[:-1], axis=-1), strict=True))
        case g.SplitHeads(x, sizes, outs):
            values.update(zip(outs, np.split(values[x], np.cumsum(sizes)[:-1], axis=0), strict=True))
        case g.SplitOwn(x, cached, own):
            n_cells = values[x].shape[-1] - values[x].shape[-2]
            values[cached], values[own] = values[x][..., :n_cells], values[x][..., n_cells:]
        case g.Give(x, out):
            values[out] = values[x]
        case g.ByHeads(x, n_heads, out):
            values[out] = values[x].reshape(len(values[x]), n_heads, -1).transpose(1, 0, 2)
        case g.FromHeads(x, width, out):
            values[out] = values[x].transpose(1, 0, 2).reshape(-1, width)
        case _:
            raise AssertionError(node)


def _norm(x: FloatArray, weight: FloatArray, eps: float) -> FloatArray:
    square = np.mean(x * x, axis=-1, keepdims=True, dtype=np.float32)
    normed: FloatArray = x / np.sqrt(square + np.float32(eps)) * weight
    return normed


def _rotated(x: FloatArray, cos: FloatArray, sin: FloatArray) -> FloatArray:
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def _gelu(x: FloatArray) -> FloatArray:
    inner = np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x**3)
    raised: FloatArray = x / 2 * (1 + np.tanh(inner))
    return raised
