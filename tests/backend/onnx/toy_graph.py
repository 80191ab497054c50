"""A transformer of two small blocks: as the folder of a step model, and as plain numpy that keeps no cache."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgespec.stepfile import EMBEDDING, GRAPH, HEAD_IDS, RopeTable, StepFile, write_step

Array = npt.NDArray[np.float32]

FILE = StepFile(
    architecture="llama",
    source_name="toy",
    source_fingerprint="none",
    layers=(0, 1),
    n_vocab=40,
    width=12,
    n_heads=4,
    n_kv_heads=2,
    head_dim=8,
    n_blocks=2,
    embedding_scale=12**0.5,
    rope=(RopeTable(10000.0, 8, 1.0),),
    n_ranked=5,
    rows=(1, 4),
    n_ctx=96,
    token_hash="none",
)
# As gemma3: the first block sees six tokens back and has rotary angles of its own.
WINDOWED = replace(FILE, rope=(RopeTable(1e6, 8, 8.0), RopeTable(100.0, 8, 1.0)), sliding_window=6)
HEAD = np.array([1, 2, 3, 5, 8, 13, 21, 34, 39], dtype=np.int32)
NOT_A_NUMBER = 7  # the token whose embedding is one
EPSILON = 1e-5


@dataclass(frozen=True, slots=True)
class Toy:
    """head_ids None: the head has a row for each token of the vocabulary."""

    file: StepFile = FILE
    head_ids: npt.NDArray[np.int32] | None = None
    seed: int = 0

    @property
    def n_head_rows(self) -> int:
        return self.file.n_vocab if self.head_ids is None else len(self.head_ids)

    def weights(self) -> dict[str, Array]:
        file, draw = self.file, np.random.default_rng(self.seed)
        q, kv = file.n_heads * file.head_dim, file.n_kv_heads * file.head_dim
        shapes = {"head": (file.width, self.n_head_rows), "embedding": (file.n_vocab, file.width)}
        for i in range(file.n_blocks):
            shapes |= {f"q{i}": (file.width, q), f"k{i}": (file.width, kv), f"v{i}": (file.width, kv)}
            shapes |= {f"o{i}": (q, file.width), f"up{i}": (file.width, 20), f"down{i}": (20, file.width)}
        found = {name: draw.normal(0, shape[0] ** -0.5, shape).astype(np.float32) for name, shape in shapes.items()}
        found["head"] *= 3  # sharp enough that ranks are no accident of rounding
        found["embedding"] = found["embedding"].astype(np.float16).astype(np.float32)
        return found

    def write(self, path: Path) -> Path:
        weights = self.weights()

        def fill(folder: Path) -> StepFile:
            embedding = weights["embedding"].astype(np.float16)
            embedding[NOT_A_NUMBER] = np.nan
            np.save(folder / EMBEDDING, embedding)
            if self.head_ids is not None:
                np.save(folder / HEAD_IDS, self.head_ids)
            onnx.save(self.model(), str(folder / GRAPH))
            return self.file

        write_step(path, fill)
        return path

    # -- the plain twin -----------------------------------------------------------------------------------------

    def logits(self, tokens: list[int]) -> Array:
        """float32[n_head_rows]: of what follows these tokens, computed from nothing."""
        file, weights = self.file, self.weights()
        x = weights["embedding"][tokens] * np.float32(file.embedding_scale)
        positions = np.arange(len(tokens))
        for i in range(file.n_blocks):
            local = file.windowed and i == 0
            table = file.rope[-1] if local else file.rope[0]
            age = positions[:, None] - positions[None, :]
            hidden = (age < 0) | (age >= file.sliding_window if local else False)
            x = x + self._attention(weights, i, _norm(x), table, positions, hidden) @ weights[f"o{i}"]
            x = x + np.tanh(_norm(x) @ weights[f"up{i}"]) @ weights[f"down{i}"]
        last: Array = _norm(x)[-1] @ weights["head"]
        return last

    def _attention(
        self,
        weights: dict[str, Array],
        i: int,
        x: Array,
        table: RopeTable,
        positions: npt.NDArray[np.int_],
        hidden: npt.NDArray[np.bool_],
    ) -> Array:
        file, n = self.file, len(x)
        q = _turned((x @ weights[f"q{i}"]).reshape(n, file.n_heads, file.head_dim), table, positions)
        k = _turned((x @ weights[f"k{i}"]).reshape(n, file.n_kv_heads, file.head_dim), table, positions)
        v = (x @ weights[f"v{i}"]).reshape(n, file.n_kv_heads, file.head_dim)
        heads = []
        for head in range(file.n_heads):
            kv = head // (file.n_heads // file.n_kv_heads)
            scores = q[:, head] @ k[:, kv].T / np.sqrt(file.head_dim)
            scores[hidden] = -np.inf
            shares = np.exp(scores - scores.max(axis=1, keepdims=True))
            heads.append(shares / shares.sum(axis=1, keepdims=True) @ v[:, kv])
        return np.concatenate(heads, axis=1)

    # -- the graph ----------------------------------------------------------------------------------------------

    def model(self) -> onnx.ModelProto:
        return _Graph(self).build()


def _norm(x: Array) -> Array:
    found: Array = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(EPSILON))
    return found


def _turned(x: Array, table: RopeTable, positions: npt.NDArray[np.int_]) -> Array:
    """Pair i is (i, i + half); a complex product turns it."""
    half = x.shape[-1] // 2
    angles = positions[:, None] / table.factor * table.base ** (-2.0 * np.arange(half) / table.n_dims)
    turned = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)[:, None, :]
    return np.concatenate([turned.real, turned.imag], axis=-1).astype(np.float32)


class _Graph:
    """Nodes are added in order; each returns the name of its output."""

    def __init__(self, toy: Toy) -> None:
        self.toy, self.file = toy, toy.file
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

    def op(self, kind: str, *inputs: str, out: str = "", **settings: int | float | list[int]) -> str:
        out = out or f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [out], **settings))
        return out

    def const(self, name: str, value: npt.ArrayLike, kind: type = np.int64) -> str:
        self.constants[name] = numpy_helper.from_array(np.asarray(value, dtype=kind), name)
        return name

    def real(self, name: str, value: npt.ArrayLike) -> str:
        return self.const(name, value, np.float32)

    def norm(self, x: str) -> str:
        mean = self.op("ReduceMean", self.op("Mul", x, x), self.const("last", [-1]), keepdims=1)
        return self.op("Div", x, self.op("Sqrt", self.op("Add", mean, self.real("epsilon", EPSILON))))

    def heads(self, x: str, weight: str, n: int) -> str:
        """[heads, n, head_dim]"""
        shape = self.const(f"shape{n}", [-1, n, self.file.head_dim])
        return self.op("Transpose", self.op("Reshape", self.op("MatMul", x, weight), shape), perm=[1, 0, 2])

    def turned(self, x: str, end: str) -> str:
        half = self.file.head_dim // 2
        axis, zero = self.const("axis2", [2]), self.const("zero", [0])
        low = self.op("Slice", x, zero, self.const("half", [half]), axis)
        high = self.op("Slice", x, "half", self.const("whole", [2 * half]), axis)
        cos, sin = f"cos{end}", f"sin{end}"
        real = self.op("Sub", self.op("Mul", low, cos), self.op("Mul", high, sin))
        imaginary = self.op("Add", self.op("Mul", high, cos), self.op("Mul", low, sin))
        return self.op("Concat", real, imaginary, axis=2)

    def block(self, i: int, x: str) -> str:
        file = self.file
        local = "_local" if file.windowed and i == 0 else ""
        turn = local if len(file.rope) > 1 else ""
        normed = self.norm(x)
        q = self.turned(self.heads(normed, f"q{i}", file.n_heads), turn)
        k = self.op("Identity", self.turned(self.heads(normed, f"k{i}", file.n_kv_heads), turn), out=f"new_k_{i}")
        v = self.op("Identity", self.heads(normed, f"v{i}", file.n_kv_heads), out=f"new_v_{i}")
        grouped = self.const("grouped", [file.n_kv_heads, file.n_heads // file.n_kv_heads, -1, file.head_dim])
        one = self.const("one", [1])
        keys = self.op("Unsqueeze", self.op("Concat", f"past_k_{i}", k, axis=1), one)
        values = self.op("Unsqueeze", self.op("Concat", f"past_v_{i}", v, axis=1), one)
        scores = self.op("MatMul", self.op("Reshape", q, grouped), self.op("Transpose", keys, perm=[0, 1, 3, 2]))
        scaled = self.op("Mul", scores, self.real("scale", file.head_dim**-0.5))
        sight = self.op("Concat", f"mask{local}", f"own_mask{local}", axis=1)
        mixed = self.op("MatMul", self.op("Softmax", self.op("Add", scaled, sight), axis=-1), values)
        flat = self.const("flat", [-1, file.n_heads * file.head_dim])
        joined = self.op("Reshape", self.op("Transpose", mixed, perm=[2, 0, 1, 3]), flat)
        x = self.op("Add", x, self.op("MatMul", joined, f"o{i}"))
        inner = self.op("Tanh", self.op("MatMul", self.norm(x), f"up{i}"))
        return self.op("Add", x, self.op("MatMul", inner, f"down{i}"))

    def build(self) -> onnx.ModelProto:
        file, x = self.file, "x"
        for i in range(file.n_blocks):
            x = self.block(i, x)
        row = self.op("MatMul", self.norm(x), "head")
        self.op("ReduceLogSumExp", row, "last", out="log_sums", keepdims=0)
        top = helper.make_node("TopK", [row, self.const("k", [file.n_ranked])], ["logits", "ids64"])
        self.nodes += [top, helper.make_node("Cast", ["ids64"], ["ids"], to=TensorProto.INT32)]
        weights = [numpy_helper.from_array(w, n) for n, w in self.toy.weights().items() if n != "embedding"]
        graph = helper.make_graph(
            self.nodes, "toy", self._inputs(), self._outputs(), [*weights, *self.constants.values()]
        )
        model: onnx.ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        return model

    def _inputs(self) -> list[onnx.ValueInfoProto]:
        file, half = self.file, self.file.head_dim // 2
        ends = ["", "_local"] if len(file.rope) > 1 else [""]
        shapes: dict[str, list[int | str]] = {"x": ["n", file.width]}
        for end in ends:
            shapes |= {f"cos{end}": ["n", half], f"sin{end}": ["n", half]}
        for end in ["", "_local"] if file.windowed else [""]:
            shapes |= {f"mask{end}": ["n", "S"], f"own_mask{end}": ["n", "n"]}
        for i in range(file.n_blocks):
            shapes |= {f"past_{kv}_{i}": [file.n_kv_heads, "S", file.head_dim] for kv in "kv"}
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]

    def _outputs(self) -> list[onnx.ValueInfoProto]:
        file = self.file
        shapes: dict[str, list[int | str]] = {"logits": ["n", file.n_ranked], "log_sums": ["n"]}
        for i in range(file.n_blocks):
            shapes |= {f"new_{kv}_{i}": [file.n_kv_heads, "n", file.head_dim] for kv in "kv"}
        ids = helper.make_tensor_value_info("ids", TensorProto.INT32, ["n", file.n_ranked])
        return [ids, *(helper.make_tensor_value_info(name, TensorProto.FLOAT, s) for name, s in shapes.items())]
