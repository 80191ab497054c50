"""Reads a GGUF of the llama, qwen2, qwen3 or gemma3 architecture as `Weights`; refuses by name what it cannot carry.

Needs the `gguf` package, which is imported only here and in `grids`, when a model is read. The file stays mapped.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from edgespec.errors import CorruptModel, ModelNotFound, UnsupportedModel
from edgespec.spec.ports import FloatArray, IntArray
from edgespec.stepmodel.extras import extra
from edgespec.stepmodel.grids import floats, from_blocks
from edgespec.stepmodel.matrix import Matrix, taken
from edgespec.stepmodel.weights import Activation, Block, Rope, Vocabulary, Weights

ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma3")
# Only these store query and key rows in pairs of neighbours, llama.cpp's NORM rotary kind.
INTERLEAVED = ("llama",)
# Gemma 3's layers in groups of six, the last of which sees everything; what older files leave unsaid.
GEMMA_PERIOD = 6
GEMMA_LOCAL_BASE = 10_000.0
# The one Gemma 3 that scales scores by width / heads instead of the head's size is told by its depth.
GEMMA_27B_BLOCKS = 62
CONTROL_TYPE = 3  # of tokenizer.ggml.token_type
REMEDY = "draft with this GGUF itself, which llama.cpp runs, or export another model"

Progress = Callable[[int, int], None]


class _Tensor(Protocol):
    """What is used of gguf's `ReaderTensor`."""

    name: str
    data: npt.NDArray[np.generic]
    shape: Sequence[int]


def read_weights(path: Path, layers: Sequence[int] | None = None, progress: Progress | None = None) -> Weights:
    """The model in `path`, or of its blocks only `layers`, ascending.

    progress: told how many of how many blocks are read. Raises ModelNotFound, CorruptModel, MissingExtra, and
    UnsupportedModel for other architectures and for what the graph does not compute.
    """
    return _Reader(path).weights(layers, progress)


def count_blocks(path: Path) -> int:
    """Layers of the model in `path`. Raises as `read_weights`."""
    return _Reader(path).n_blocks


class _Reader:
    def __init__(self, path: Path) -> None:
        gguf = extra("gguf", f"read {path}")
        if not path.is_file():
            raise ModelNotFound(f"no model at {path}", "there is no such file", "check the path")
        try:
            self._file = gguf.GGUFReader(path)
        except (ValueError, IndexError, KeyError, OverflowError) as error:
            raise CorruptModel(f"cannot read {path}", str(error), "download the file again") from error
        self._path = path
        self._tensors: dict[str, _Tensor] = {tensor.name: tensor for tensor in self._file.tensors}
        self._left = set(self._tensors)
        self.architecture = self._text("general.architecture", "")
        if self.architecture not in ARCHITECTURES:
            known = ", ".join(ARCHITECTURES)
            raise self._unsupported(f"its architecture is '{self.architecture}', and step models know {known}")
        self.n_blocks = self._count("block_count")

    def weights(self, layers: Sequence[int] | None, progress: Progress | None) -> Weights:
        self._refuse_unknown()
        kept = self._kept(layers)
        width, n_heads = self._count("embedding_length"), self._count("attention.head_count")
        head_dim = self._count("attention.key_length", width // n_heads)
        is_gemma = self.architecture == "gemma3"
        window = self._count("attention.sliding_window", 0) if is_gemma else 0
        ropes = self._ropes(head_dim, window > 0)
        table = self._tensor("token_embd.weight")
        head = self._matrix("output") if "output.weight" in self._tensors else self._matrix("token_embd")
        found = Weights(
            architecture=self.architecture,
            name=self._text("general.name", self._path.stem),
            width=width,
            n_heads=n_heads,
            n_kv_heads=self._kv_heads(n_heads),
            head_dim=head_dim,
            eps=self._number("attention.layer_norm_rms_epsilon"),
            score_scale=self._score_scale(width, n_heads, head_dim),
            embedding_scale=math.sqrt(width) if is_gemma else 1.0,
            activation=Activation.GELU if is_gemma else Activation.SILU,
            ropes=ropes,
            window=window,
            n_ctx=self._count("context_length"),
            vocabulary=self._vocabulary(len(table.data)),
            embedding=lambda start, stop: floats(_kind(table), table.data[start:stop]),
            blocks=self._blocks(kept, n_heads, window, progress),
            out_norm=self._vector("output_norm.weight"),
            head=head,
        )
        self._refuse_left(kept)
        return found

    def _kept(self, layers: Sequence[int] | None) -> list[int]:
        kept = sorted(set(range(self.n_blocks) if layers is None else layers))
        if not kept or not 0 <= kept[0] <= kept[-1] < self.n_blocks:
            raise self._unsupported(f"its layers are 0 to {self.n_blocks - 1}", f"cannot keep the layers {kept} of")
        return kept

    def _blocks(self, kept: list[int], n_heads: int, window: int, progress: Progress | None) -> tuple[Block, ...]:
        blocks: list[Block] = []
        for done, number in enumerate(kept):
            if progress is not None:
                progress(done, len(kept))
            blocks.append(self._block(number, n_heads, window))
        return tuple(blocks)

    def _block(self, number: int, n_heads: int, window: int) -> Block:
        prefix = f"blk.{number}."
        period = self._count("attention.sliding_window_pattern", GEMMA_PERIOD)
        n_kv_heads = self._kv_heads(n_heads)
        is_gemma = self.architecture == "gemma3"
        return Block(
            number=number,
            attention_norm=self._vector(f"{prefix}attn_norm.weight"),
            query=self._turned(f"{prefix}attn_q", n_heads),
            key=self._turned(f"{prefix}attn_k", n_kv_heads),
            value=self._matrix(f"{prefix}attn_v"),
            output=self._matrix(f"{prefix}attn_output"),
            ffn_norm=self._vector(f"{prefix}ffn_norm.weight"),
            gate=self._matrix(f"{prefix}ffn_gate"),
            up=self._matrix(f"{prefix}ffn_up"),
            down=self._matrix(f"{prefix}ffn_down"),
            query_bias=self._turned_bias(f"{prefix}attn_q.bias", n_heads),
            key_bias=self._turned_bias(f"{prefix}attn_k.bias", n_kv_heads),
            value_bias=self._optional(f"{prefix}attn_v.bias"),
            query_norm=self._optional(f"{prefix}attn_q_norm.weight"),
            key_norm=self._optional(f"{prefix}attn_k_norm.weight"),
            post_attention_norm=self._vector(f"{prefix}post_attention_norm.weight") if is_gemma else None,
            post_ffn_norm=self._vector(f"{prefix}post_ffw_norm.weight") if is_gemma else None,
            is_local=window > 0 and number % period < period - 1,
        )

    def _turned(self, name: str, n_heads: int) -> Matrix:
        matrix = self._matrix(name)
        if self.architecture not in INTERLEAVED:
            return matrix
        return taken(matrix, half_split_rows(n_heads, matrix.n_out // n_heads))

    def _turned_bias(self, name: str, n_heads: int) -> FloatArray | None:
        bias = self._optional(name)
        if bias is None or self.architecture not in INTERLEAVED:
            return bias
        return bias[half_split_rows(n_heads, len(bias) // n_heads)]

    def _kv_heads(self, n_heads: int) -> int:
        found = self._value("attention.head_count_kv", n_heads)
        counts = {int(count) for count in found} if isinstance(found, list) else {int(str(found))}
        if len(counts) != 1:
            raise self._unsupported("its layers differ in their number of key-value heads")
        return counts.pop()

    def _score_scale(self, width: int, n_heads: int, head_dim: int) -> float:
        if self.architecture == "gemma3" and self.n_blocks == GEMMA_27B_BLOCKS:
            return 1 / math.sqrt(width / n_heads)
        return 1 / math.sqrt(head_dim)

    def _ropes(self, head_dim: int, has_local: bool) -> tuple[Rope, ...]:
        n_dims = self._count("rope.dimension_count", head_dim)
        if n_dims != head_dim:
            raise self._unsupported(f"it turns {n_dims} of a head's {head_dim} dimensions")
        table = Rope(self._number("rope.freq_base", 10_000.0), n_dims, self._rope_factor())
        if not has_local:
            return (table,)
        return (table, Rope(self._number("rope.freq_base_swa", GEMMA_LOCAL_BASE), n_dims))

    def _rope_factor(self) -> float:
        kind = self._text(f"{self.architecture}.rope.scaling.type", "none")
        if kind not in ("none", "linear"):
            raise self._unsupported(f"its rotary scaling is of the kind '{kind}', and step models know 'linear'")
        old = self._number("rope.scale_linear", 1.0)
        return self._number("rope.scaling.factor", old) if kind == "linear" else old

    def _vocabulary(self, n_vocab: int) -> Vocabulary:
        pieces = self._list("tokenizer.ggml.tokens")
        kinds = self._list("tokenizer.ggml.token_type")
        digest = hashlib.sha256()
        for piece in pieces:
            data = str(piece).encode("utf-8", "surrogateescape")
            digest.update(struct.pack("<I", len(data)) + data)
        control = tuple(token for token, kind in enumerate(kinds) if kind == CONTROL_TYPE)
        return Vocabulary(n_vocab, digest.hexdigest(), control)

    def _refuse_unknown(self) -> None:
        if self._count("expert_count", 0):
            raise self._unsupported("it is a mixture of experts")
        for key in ("attn_logit_softcapping", "final_logit_softcapping"):
            if self._number(key, 0.0):
                raise self._unsupported(f"it has {key}")
        if "rope_freqs.weight" in self._tensors:
            raise self._unsupported("its rotary scaling is of the kind 'llama3', one factor per dimension")

    def _refuse_left(self, kept: list[int]) -> None:
        """A tensor that nothing reads is a computation that the graph would leave out."""
        known = tuple(f"blk.{number}." for number in kept)
        left = sorted(name for name in self._left if not name.startswith("blk.") or name.startswith(known))
        if left:
            raise self._unsupported(f"it has a tensor '{left[0]}'")

    def _matrix(self, name: str) -> Matrix:
        tensor = self._tensor(f"{name}.weight")
        try:
            return from_blocks(_kind(tensor), tensor.data, int(tensor.shape[0]))
        except NotImplementedError as error:
            raise self._unsupported(f"its '{tensor.name}' is stored as {_kind(tensor)}") from error

    def _optional(self, name: str) -> FloatArray | None:
        return self._vector(name) if name in self._tensors else None

    def _vector(self, name: str) -> FloatArray:
        tensor = self._tensor(name)
        return floats(_kind(tensor), tensor.data).reshape(-1)

    def _tensor(self, name: str) -> _Tensor:
        if name not in self._tensors:
            raise self._unsupported(f"it has no tensor '{name}'")
        self._left.discard(name)
        return self._tensors[name]

    def _count(self, key: str, default: int | None = None) -> int:
        return int(self._number(key, default))

    def _number(self, key: str, default: float | None = None) -> float:
        value = self._value(key, default)
        if not isinstance(value, int | float):
            raise self._unsupported(f"its '{self.architecture}.{key}' is {value}")
        return float(value)

    def _value(self, key: str, default: object) -> object:
        field = self._file.get_field(f"{self.architecture}.{key}")
        return default if field is None else field.contents()

    def _text(self, key: str, default: str) -> str:
        field = self._file.get_field(key)
        return default if field is None else str(field.contents())

    def _list(self, key: str) -> list[object]:
        field = self._file.get_field(key)
        return [] if field is None else list(field.contents())

    def _unsupported(self, why: str, what: str = "cannot make a step model of") -> UnsupportedModel:
        return UnsupportedModel(f"{what} {self._path}", why, REMEDY)


def half_split_rows(n_heads: int, head_dim: int) -> IntArray:
    """int32[n_heads * head_dim]: of pairs of neighbours, first all first ones of a head, then all second ones."""
    rows = np.arange(n_heads * head_dim, dtype=np.int32).reshape(n_heads, head_dim // 2, 2)
    turned: IntArray = rows.transpose(0, 2, 1).reshape(-1)
    return turned


def _kind(tensor: object) -> str:
    return str(tensor.tensor_type.name)  # type: ignore[attr-defined]
