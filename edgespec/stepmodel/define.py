"""Builds the neutral graph of a model of the llama family from its weights.

Query, key and value matrices, and gate and up, are stacked where they share a grid: one wide product is faster than
several. Knows no file format and no runtime.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgespec.errors import BadInput
from edgespec.spec.ports import FloatArray, IntArray
from edgespec.stepmodel import graph as g
from edgespec.stepmodel.matrix import Matrix, alike, stacked, taken
from edgespec.stepmodel.weights import Activation, Block, Weights


def define(weights: Weights, n_ranked: int, head_ids: IntArray | None = None) -> g.Graph:
    """The step model with inputs and outputs as of a step model's folder.

    head_ids: int32[m], ascending: the token ids that keep their head rows; None keeps all. Raises BadInput when fewer
    are left than are to be ranked.
    """
    head = weights.head if head_ids is None else taken(weights.head, head_ids)
    if not 1 <= n_ranked <= head.n_out:
        why = f"the head has {head.n_out} rows, and at least one token is ranked"
        raise BadInput(f"{n_ranked} ranked tokens", why, "choose a number in between")
    return _Builder(weights).built(head, n_ranked)


@dataclass(frozen=True, slots=True)
class _Names:
    """The per-run inputs a block sees: those of the whole context, or of the sliding window."""

    cos: str
    sin: str
    mask: str


class _Builder:
    """Appends nodes; the name of a value is the name of what makes it."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._nodes: list[g.Node] = []
        self._matrices: dict[str, Matrix] = {}
        self._vectors: dict[str, FloatArray] = {}
        self._has_local = len(weights.ropes) > 1

    def built(self, head: Matrix, n_ranked: int) -> g.Graph:
        weights = self._weights
        suffixes = ("", "_local") if self._has_local else ("",)
        for suffix in suffixes:
            self._nodes.append(g.Join((f"mask{suffix}", f"own_mask{suffix}"), f"all_mask{suffix}"))
        stream, delta = "x", ""
        for i, block in enumerate(weights.blocks):
            stream, delta = self._block(i, block, stream, delta)
        last = self._normed(stream, delta, weights.out_norm, "out")[1]
        self._linear(last, "head", (head,), ("scores",))
        self._nodes += [g.Top("scores", n_ranked, "logits", "ids"), g.LogSumExp("scores", "log_sums")]
        n_blocks, cache = len(weights.blocks), (weights.n_kv_heads, weights.head_dim)
        return g.Graph(
            weights.n_heads,
            weights.n_kv_heads,
            weights.head_dim,
            _inputs(weights, suffixes, n_blocks),
            _outputs(n_ranked, n_blocks, *cache),
            tuple(self._nodes),
            self._matrices,
            self._vectors,
        )

    def _block(self, i: int, block: Block, stream: str, delta: str) -> tuple[str, str]:
        """The residual stream and what is still to be added to it, before and after the block."""
        at = f"b{i}_"
        stream, normed = self._normed(stream, delta, block.attention_norm, f"{at}attention")
        delta = self._attention(i, block, normed)
        if block.post_attention_norm is not None:
            delta = self._normed(delta, "", block.post_attention_norm, f"{at}post_attention")[1]
        stream, normed = self._normed(stream, delta, block.ffn_norm, f"{at}ffn")
        delta = self._feed_forward(at, block, normed)
        if block.post_ffn_norm is not None:
            delta = self._normed(delta, "", block.post_ffn_norm, f"{at}post_ffn")[1]
        return stream, delta

    def _normed(self, x: str, y: str, weight: FloatArray, name: str) -> tuple[str, str]:
        """The sum of x and y (nothing: x alone), and its norm."""
        self._vectors[f"{name}_weight"] = weight
        eps = self._weights.eps
        if not y:
            self._nodes.append(g.Norm(x, f"{name}_weight", eps, f"{name}_normed"))
            return x, f"{name}_normed"
        self._nodes.append(g.AddNorm(x, y, f"{name}_weight", eps, f"{name}_total", f"{name}_normed"))
        return f"{name}_total", f"{name}_normed"

    def _attention(self, i: int, block: Block, x: str) -> str:
        at = f"b{i}_"
        suffix = "_local" if block.is_local else ""
        names = _Names(f"cos{suffix}", f"sin{suffix}", f"all_mask{suffix}")
        self._query_key_value(i, block, x, names)
        past, own, joined = f"{at}past_scores", f"{at}own_scores", f"{at}scores"
        cached_share, own_share = f"{at}cached_share", f"{at}own_share"
        self._nodes += [
            g.Give(f"{at}new_key", f"new_k_{i}"),
            g.Give(f"{at}new_value", f"new_v_{i}"),
            g.Scores(f"{at}query", f"past_k_{i}", past),
            g.Scores(f"{at}query", f"new_k_{i}", own),
            g.Join((past, own), joined),
            g.AddMask(joined, names.mask, f"{at}masked"),
            g.Softmax(f"{at}masked", f"{at}shares"),
            g.SplitOwn(f"{at}shares", cached_share, own_share),
            g.Mix(cached_share, f"past_v_{i}", f"{at}cached_mix"),
            g.Mix(own_share, f"new_v_{i}", f"{at}own_mix"),
            g.Add(f"{at}cached_mix", f"{at}own_mix", f"{at}mix"),
            g.FromHeads(f"{at}mix", block.output.n_in, f"{at}heads"),
        ]
        return self._linear(f"{at}heads", f"{at}output", (block.output,), (f"{at}attention_delta",))[0]

    def _query_key_value(self, i: int, block: Block, x: str, names: _Names) -> None:
        """Makes b{i}_query, scaled, b{i}_new_key and b{i}_new_value. Without norms, queries and keys turn together."""
        at, weights = f"b{i}_", self._weights
        n_q, n_kv = weights.n_heads, weights.n_kv_heads

        self._joined(x, at, block)
        self._nodes.append(g.ByHeads(f"{at}qkv", n_q + 2 * n_kv, f"{at}qkv_heads"))
        if block.query_norm is None and block.key_norm is None:
            self._nodes += [
                g.SplitHeads(f"{at}qkv_heads", (n_q + n_kv, n_kv), (f"{at}qk", f"{at}new_value")),
                g.Rotate(f"{at}qk", names.cos, names.sin, f"{at}qk_turned"),
                g.SplitHeads(f"{at}qk_turned", (n_q, n_kv), (f"{at}query_turned", f"{at}new_key")),
            ]
        else:
            parts = (f"{at}query_plain", f"{at}key_plain", f"{at}new_value")
            self._nodes.append(g.SplitHeads(f"{at}qkv_heads", (n_q, n_kv, n_kv), parts))
            query = self._head_norm(parts[0], block.query_norm, f"{at}query_head")
            key = self._head_norm(parts[1], block.key_norm, f"{at}key_head")
            self._nodes.append(g.Rotate(query, names.cos, names.sin, f"{at}query_turned"))
            self._nodes.append(g.Rotate(key, names.cos, names.sin, f"{at}new_key"))
        self._nodes.append(g.Scale(f"{at}query_turned", weights.score_scale, f"{at}query"))

    def _head_norm(self, x: str, weight: FloatArray | None, name: str) -> str:
        return x if weight is None else self._normed(x, "", weight, name)[1]

    def _joined(self, x: str, at: str, block: Block) -> None:
        """Makes `{at}qkv`, biases included."""
        matrices = (block.query, block.key, block.value)
        biases = (block.query_bias, block.key_bias, block.value_bias)
        raw = tuple(f"{at}{part}_raw" for part in ("q", "k", "v"))
        if all(bias is None for bias in biases):
            self._one(x, f"{at}qkv", matrices, raw, f"{at}qkv")
            return
        self._one(x, f"{at}qkv", matrices, raw, f"{at}qkv_plain")
        self._vectors[f"{at}qkv_bias"] = _joined_biases(biases, matrices)
        self._nodes.append(g.AddVector(f"{at}qkv_plain", f"{at}qkv_bias", f"{at}qkv"))

    def _feed_forward(self, at: str, block: Block, x: str) -> str:
        gate, up = f"{at}gate", f"{at}up"
        if alike(block.gate, block.up):
            self._linear(x, f"{at}gate_up", (stacked((block.gate, block.up)),), (f"{at}gate_up",))
            width = block.gate.n_out
            self._nodes.append(g.SplitColumns(f"{at}gate_up", (width, width), (gate, up)))
        else:
            self._linear(x, f"{at}gate_up", (block.gate, block.up), (gate, up))
        activation = g.Gelu if self._weights.activation is Activation.GELU else g.Silu
        self._nodes += [activation(gate, f"{at}gate_on"), g.Multiply(f"{at}gate_on", up, f"{at}ffn_inner")]
        return self._linear(f"{at}ffn_inner", f"{at}down", (block.down,), (f"{at}ffn_delta",))[0]

    def _one(self, x: str, name: str, parts: Sequence[Matrix], outs: Sequence[str], out: str) -> None:
        """The outputs of all `parts` as one value `out`, by as few products as their grids allow."""
        groups: list[list[Matrix]] = []
        for part in parts:
            if groups and alike(groups[-1][0], part):
                groups[-1].append(part)
            else:
                groups.append([part])
        merged = [stacked(group) for group in groups]
        made = self._linear(x, name, merged, (out,) if len(merged) == 1 else outs[: len(merged)])
        if len(made) > 1:
            self._nodes.append(g.Join(tuple(made), out))

    def _linear(self, x: str, name: str, matrices: Sequence[Matrix], outs: Sequence[str]) -> Sequence[str]:
        for number, (matrix, out) in enumerate(zip(matrices, outs, strict=True)):
            self._matrices[f"{name}_{number}"] = matrix
            self._nodes.append(g.Linear(x, f"{name}_{number}", out))
        return outs


def _joined_biases(biases: Sequence[FloatArray | None], matrices: Sequence[Matrix]) -> FloatArray:
    found = [
        np.zeros(matrix.n_out, dtype=np.float32) if bias is None else bias
        for bias, matrix in zip(biases, matrices, strict=True)
    ]
    return np.concatenate(found)


def _inputs(weights: Weights, suffixes: Sequence[str], n_blocks: int) -> tuple[g.Port, ...]:
    ports = [g.Port("x", ("n", weights.width))]
    for suffix in suffixes:
        ports += [g.Port(f"{name}{suffix}", ("n", weights.head_dim // 2)) for name in ("cos", "sin")]
        ports += [g.Port(f"mask{suffix}", ("n", "S")), g.Port(f"own_mask{suffix}", ("n", "n"))]
    cache: tuple[g.Dim, ...] = (weights.n_kv_heads, "S", weights.head_dim)
    ports += [g.Port(f"past_{kind}_{i}", cache) for i in range(n_blocks) for kind in ("k", "v")]
    return tuple(ports)


def _outputs(n_ranked: int, n_blocks: int, n_kv_heads: int, head_dim: int) -> tuple[g.Port, ...]:
    ports = [g.Port("ids", ("n", n_ranked)), g.Port("logits", ("n", n_ranked)), g.Port("log_sums", ("n",))]
    new: tuple[g.Dim, ...] = (n_kv_heads, "n", head_dim)
    return (*ports, *(g.Port(f"new_{kind}_{i}", new) for i in range(n_blocks) for kind in ("k", "v")))
