"""Translates the neutral graph to an ONNX model for ONNX Runtime; rows and cells stay symbolic, so one file serves all.

Quantised matrices become MatMulNBits on their own grid. It carries no offsets, so where a grid has them the product
gets a second, small one: sums of the input over blocks of 32, times the offsets. Values by heads get a leading axis of
1, which is what ONNX Runtime's rotary operation takes. Needs the `onnx` package, imported when a model is emitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from edgespec.errors import UnsupportedModel
from edgespec.stepmodel import graph as g
from edgespec.stepmodel.extras import extra
from edgespec.stepmodel.matrix import BLOCK, DenseMatrix, QuantMatrix

OPSET = 20
IR_VERSION = 10
FUSED = "com.microsoft"
# protobuf cannot serialise more; half a percent is left for everything that is not a weight.
MAX_BYTES = int(0.995 * (1 << 31))
# MatMulNBits rounds its inputs to int8 at this level. With float inputs 8-bit weights are dequantised at every run,
# which takes some 15 times as long, and 4-bit ones take a third longer.
ACCURACY_LEVEL = 4


def emit_onnx(graph: g.Graph) -> bytes:
    """The model, serialised. Raises UnsupportedModel when it exceeds what one file can hold, and MissingExtra."""
    n_bytes = sum(_stored_bytes(matrix) for matrix in graph.matrices.values())
    if n_bytes > MAX_BYTES:
        why = f"its matrices take {n_bytes / 1e9:.1f} GB, and one ONNX file holds 2.1 GB"
        raise UnsupportedModel("cannot write the step model", why, "keep fewer layers, or export a smaller model")
    return _Emitter(graph).model()


def _stored_bytes(matrix: QuantMatrix | DenseMatrix) -> int:
    if isinstance(matrix, DenseMatrix):
        return matrix.values.nbytes
    return matrix.codes.nbytes + matrix.scales.nbytes * (1 if matrix.offsets is None else 2)


class _Emitter:
    def __init__(self, graph: g.Graph) -> None:
        self._graph = graph
        self._onnx = extra("onnx", "write the step model")
        self._nodes: list[object] = []
        self._initializers: dict[str, object] = {}
        self._made: set[str] = set()

    def model(self) -> bytes:
        helper, graph = self._onnx.helper, self._graph
        for node in graph.nodes:
            self._node(node)
        body = helper.make_graph(
            self._nodes,
            "step",
            [self._info(port) for port in graph.inputs],
            [self._info(port) for port in graph.outputs],
            list(self._initializers.values()),
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED, 1)]
        model = helper.make_model(body, opset_imports=opsets, ir_version=IR_VERSION, producer_name="edgespec")
        data: bytes = model.SerializeToString()
        return data

    def _node(self, node: g.Node) -> None:
        match node:
            case g.Linear(x, matrix, out):
                self._linear(x, matrix, out)
            case g.Norm(x, weight, eps, out):
                inputs = (x, self._constant(weight, self._graph.vectors[weight]))
                self._op("SimplifiedLayerNormalization", inputs, (out,), {"axis": -1, "epsilon": eps, "stash_type": 1})
            case g.AddNorm(x, y, weight, eps, total, out):
                inputs3 = (x, y, self._constant(weight, self._graph.vectors[weight]))
                outs = (out, "", "", total)
                self._op("SkipSimplifiedLayerNormalization", inputs3, outs, {"epsilon": eps}, FUSED)
            case g.AddVector(x, vector, out):
                self._op("Add", (x, self._constant(vector, self._graph.vectors[vector])), (out,))
            case g.Scale(x, factor, out):
                self._op("Mul", (x, self._constant(f"factor_{factor!r}", np.float32(factor))), (out,))
            case g.Top(x, k, values, columns):
                self._op("TopK", (x, self._ints("k", [k])), (values, f"{columns}_long"), {"axis": -1})
                self._op("Cast", (f"{columns}_long",), (columns,), {"to": self._onnx.TensorProto.INT32})
            case g.LogSumExp(x, out):
                self._log_sum_exp(x, out)
            case _:
                self._elementwise(node)

    def _elementwise(self, node: g.Node) -> None:
        match node:
            case g.Add(x, y, out):
                self._op("Add", (x, y), (out,))
            case g.Multiply(x, y, out):
                self._op("Mul", (x, y), (out,))
            case g.Silu(x, out):
                self._op("QuickGelu", (x,), (out,), {"alpha": 1.0}, FUSED)
            case g.Gelu(x, out):
                self._op("FastGelu", (x,), (out,), None, FUSED)
            case g.Softmax(x, out):
                self._op("Softmax", (x,), (out,), {"axis": -1})
            case g.AddMask(x, mask, out):
                self._op("Add", (x, self._per_group(mask)), (out,))
            case g.Join(parts, out):
                self._op("Concat", parts, (out,), {"axis": -1})
            case g.SplitColumns(x, sizes, outs):
                self._op("Split", (x, self._ints(_listed("sizes", sizes), sizes)), outs, {"axis": -1})
            case g.SplitOwn(x, cached, own):
                self._op("Split", (x, self._own_sizes()), (cached, own), {"axis": -1})
            case _:
                self._by_heads(node)

    def _by_heads(self, node: g.Node) -> None:
        """Values by heads are [1, heads, n, d]; where they meet keys, [kv_heads, group * n, d]."""
        match node:
            case g.ByHeads(x, n_heads, out):
                self._reshape(x, (1, -1, n_heads, self._graph.head_dim), f"{out}_rows")
                self._op("Transpose", (f"{out}_rows",), (out,), {"perm": [0, 2, 1, 3]})
            case g.FromHeads(x, width, out):
                self._reshape(x, (1, self._graph.n_heads, -1, self._graph.head_dim), f"{x}_flat")
                self._op("Transpose", (f"{x}_flat",), (f"{out}_rows",), {"perm": [0, 2, 1, 3]})
                self._reshape(f"{out}_rows", (-1, width), out)
            case g.Give(x, out):
                self._reshape(x, (self._graph.n_kv_heads, -1, self._graph.head_dim), out)
            case g.SplitHeads(x, sizes, outs):
                self._op("Split", (x, self._ints(_listed("sizes", sizes), sizes)), outs, {"axis": 1})
            case g.Rotate(x, cos, sin, out):
                first = self._ints("first_position", [0])
                self._op("RotaryEmbedding", (x, first, cos, sin), (out,), None, FUSED)
            case g.Scores(query, key, out):
                self._op("FusedMatMul", (self._grouped(query), key), (out,), {"transB": 1}, FUSED)
            case g.Mix(shares, value, out):
                self._op("MatMul", (shares, value), (out,))
            case _:
                raise AssertionError(node)

    def _grouped(self, query: str) -> str:
        """[kv_heads, group * n, d]: the heads that share keys are further rows of one product."""
        out = f"{query}_grouped"
        if self._is_new(out):
            self._reshape(query, (self._graph.n_kv_heads, -1, self._graph.head_dim), out)
        return out

    def _per_group(self, mask: str) -> str:
        """[group * n, m]"""
        out = f"{mask}_per_group"
        if self._is_new(out):
            group = self._graph.n_heads // self._graph.n_kv_heads
            self._op("Concat", [mask] * group, (out,), {"axis": 0})
        return out

    def _is_new(self, value: str) -> bool:
        """Whether a value that several operations need is still to be made; the caller makes it."""
        is_new = value not in self._made
        self._made.add(value)
        return is_new

    def _linear(self, x: str, name: str, out: str) -> None:
        matrix = self._graph.matrices[name]
        if isinstance(matrix, DenseMatrix):
            values = self._constant(name, np.ascontiguousarray(matrix.values.T))
            self._op("MatMul", (x, values), (out,))
            return
        if matrix.offsets is None:
            self._product(x, name, matrix, out)
            return
        self._product(x, name, matrix, f"{out}_symmetric")
        sums = self._block_sums(x, matrix.n_in)
        offsets = self._constant(f"{name}_offsets", np.ascontiguousarray(matrix.offsets.T))
        self._op("Gemm", (sums, offsets, f"{out}_symmetric"), (out,))

    def _product(self, x: str, name: str, matrix: QuantMatrix, out: str) -> None:
        codes = self._constant(f"{name}_codes", matrix.codes)
        scales = self._constant(f"{name}_scales", matrix.scales)
        sizes = {"K": matrix.n_in, "N": matrix.n_out, "bits": matrix.bits, "block_size": BLOCK}
        attributes = {**sizes, "accuracy_level": ACCURACY_LEVEL}
        self._op("MatMulNBits", (x, codes, scales), (out,), attributes, FUSED)

    def _block_sums(self, x: str, width: int) -> str:
        """[n, width / 32]"""
        out = f"{x}_sums"
        if self._is_new(out):
            self._reshape(x, (-1, width // BLOCK, BLOCK), f"{x}_blocks")
            self._op("ReduceSum", (f"{x}_blocks", self._ints("last", [-1])), (out,), {"keepdims": 0})
        return out

    def _log_sum_exp(self, x: str, out: str) -> None:
        """In steps that run vectorised; ReduceLogSumExp takes five times as long over a whole vocabulary."""
        last = self._ints("last", [-1])
        self._op("ReduceMax", (x, last), (f"{out}_most",), {"keepdims": 1})
        self._op("Sub", (x, f"{out}_most"), (f"{out}_less",))
        self._op("Exp", (f"{out}_less",), (f"{out}_raised",))
        self._op("ReduceSum", (f"{out}_raised", last), (f"{out}_sum",), {"keepdims": 1})
        self._op("Log", (f"{out}_sum",), (f"{out}_log",))
        self._op("Add", (f"{out}_log", f"{out}_most"), (f"{out}_rows",))
        self._op("Squeeze", (f"{out}_rows", last), (out,))

    def _own_sizes(self) -> str:
        """int64[2]: S and n, for splitting what is over all columns."""
        out = "own_sizes"
        if self._is_new(out):
            for mask, size in (("mask", "n_cells"), ("own_mask", "n_own")):
                self._op("Shape", (mask,), (size,), {"start": 1, "end": 2})
            self._op("Concat", ("n_cells", "n_own"), (out,), {"axis": 0})
        return out

    def _info(self, port: g.Port) -> object:
        kind = self._onnx.TensorProto.INT32 if port.name == "ids" else self._onnx.TensorProto.FLOAT
        return self._onnx.helper.make_tensor_value_info(port.name, kind, list(port.dims))

    def _reshape(self, x: str, shape: Sequence[int], out: str) -> None:
        self._op("Reshape", (x, self._ints(_listed("shape", shape), shape)), (out,))

    def _ints(self, name: str, values: Sequence[int]) -> str:
        return self._constant(name, np.array(values, dtype=np.int64))

    def _constant(self, name: str, values: npt.NDArray[np.generic] | np.float32) -> str:
        if name not in self._initializers:
            self._initializers[name] = self._onnx.numpy_helper.from_array(np.asarray(values), name)
        return name

    def _op(
        self,
        kind: str,
        inputs: Sequence[str],
        outs: Sequence[str],
        attributes: Mapping[str, float | Sequence[int]] | None = None,
        domain: str = "",
    ) -> None:
        node = self._onnx.helper.make_node(kind, list(inputs), list(outs), f"{kind}_{len(self._nodes)}", domain=domain)
        for name, value in (attributes or {}).items():
            node.attribute.append(self._onnx.helper.make_attribute(name, value))
        self._nodes.append(node)


def _listed(name: str, values: Sequence[int]) -> str:
    return "_".join([name, *map(str, values)])
