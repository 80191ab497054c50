"""A model cut into its blocks, each in an ONNX Runtime session of its own, so that any subset of them can be run over
the same texts, and subsets that begin alike are computed once.

Numbers are those of the step model that the subset would become. Knows no choice.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING

import numpy as np

from edgespec.backend.onnx.cells import UNSEEN, CellTree
from edgespec.backend.onnx.rotary import rotary_table
from edgespec.backend.onnx.session import OnnxSettings, graph_session
from edgespec.exporting.texts import Text
from edgespec.spec.ports import FloatArray, IntArray
from edgespec.stepfile import RopeTable
from edgespec.stepmodel import graph as g
from edgespec.stepmodel.define import define
from edgespec.stepmodel.emit_onnx import emit_onnx
from edgespec.stepmodel.matrix import DenseMatrix, Matrix
from edgespec.stepmodel.weights import Weights

if TYPE_CHECKING:
    import onnxruntime

Layers = tuple[int, ...]
Feeds = dict[str, FloatArray]


@dataclass(frozen=True, slots=True)
class Piece:
    """One block, x to x, or the head, x to ids. n_bytes: of its weights."""

    session: onnxruntime.InferenceSession
    n_bytes: int


class SlicedModel:
    """Runs subsets of a model's blocks over fixed texts, each read whole in one run, from nothing."""

    def __init__(self, weights: Weights, texts: Seq[Text], on_block: Callable[[float], None] = lambda _: None) -> None:
        """on_block: told how much is cut, 0 to 1. Raises ValueError without texts, and MissingExtra."""
        if not texts:
            raise ValueError("no texts")
        self.n_blocks = len(weights.blocks)
        self._blocks: list[Piece] = []
        for i, block in enumerate(weights.blocks):
            on_block(i / self.n_blocks)
            self._blocks.append(_block_piece(define(replace(weights, blocks=(block,)), 1)))
        self._head = _head_piece(define(replace(weights, blocks=weights.blocks[:1]), 1))
        self._texts = texts
        self._feeds = [_feeds(weights, len(text.tokens) - 1) for text in texts]
        # The residual streams that go into block i of `base`, and last what goes into its head.
        self._base: Layers = ()
        self._streams: list[list[FloatArray]] = [[_embedded(weights, text.tokens[:-1]) for text in texts]]

    def settle(self, layers: Layers) -> None:
        """Remember what this subset computes: others are then run from where they leave it."""
        n = self._shared(layers)
        self._base = layers
        del self._streams[n + 1 :]
        for number in layers[n:]:
            self._streams.append(self._behind(number, self._streams[-1]))

    def share(self, layers: Layers) -> float:
        """Bytes of the weights of these blocks and the head, as a part of all."""
        whole = sum(block.n_bytes for block in self._blocks)
        kept = sum(self._blocks[number].n_bytes for number in layers)
        return (kept + self._head.n_bytes) / (whole + self._head.n_bytes)

    def hits(self, layers: Layers) -> float:
        """The part of the answers' tokens that this subset ranks first, each after the true text before it."""
        n_hits = n = 0
        for text, stream in zip(self._texts, self._through(layers), strict=True):
            rows = stream[len(text.prompt) - 1 :]
            (ids,) = self._head.session.run(["ids"], {"x": rows, "mask": rows[:, :1], "own_mask": rows[:, :1]})
            n_hits += int((ids[:, 0] == text.answer).sum())
            n += len(text.answer)
        return n_hits / n

    def _through(self, layers: Layers) -> list[FloatArray]:
        n = self._shared(layers)
        streams = self._streams[n]
        for number in layers[n:]:
            streams = self._behind(number, streams)
        return streams

    def _behind(self, number: int, streams: list[FloatArray]) -> list[FloatArray]:
        session = self._blocks[number].session
        found: list[FloatArray] = [
            session.run(["out_total"], {"x": x, **feeds})[0] for x, feeds in zip(streams, self._feeds, strict=True)
        ]
        return found

    def _shared(self, layers: Layers) -> int:
        """How many blocks from the beginning on are those of `base`."""
        pairs = zip(layers, self._base, strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _block_piece(graph: g.Graph) -> Piece:
    """Of a model of this one block: everything up to the sum behind it."""
    end = _last_sum(graph)
    kept = graph.nodes[: end + 1]
    used = {node.matrix for node in kept if isinstance(node, g.Linear)}
    piece = replace(
        graph,
        outputs=(g.Port("out_total", graph.inputs[0].dims),),
        nodes=kept,
        matrices={name: matrix for name, matrix in graph.matrices.items() if name in used},
    )
    return _piece(piece)


def _head_piece(graph: g.Graph) -> Piece:
    end = _last_sum(graph)
    total = graph.nodes[end]
    assert isinstance(total, g.AddNorm)
    nodes = (g.Norm("x", total.weight, total.eps, total.out), *graph.nodes[end + 1 :])
    used = {node.matrix for node in nodes if isinstance(node, g.Linear)}
    piece = replace(
        graph,
        # The emitter asks the masks for the numbers of rows and cells, whatever is computed.
        inputs=tuple(port for port in graph.inputs if port.name in ("x", "mask", "own_mask")),
        outputs=tuple(port for port in graph.outputs if port.name == "ids"),
        nodes=nodes,
        matrices={name: matrix for name, matrix in graph.matrices.items() if name in used},
    )
    return _piece(piece)


def _last_sum(graph: g.Graph) -> int:
    return next(i for i, node in enumerate(graph.nodes) if isinstance(node, g.AddNorm) and node.total == "out_total")


def _piece(graph: g.Graph) -> Piece:
    n_bytes = sum(_n_bytes(matrix) for matrix in graph.matrices.values())
    return Piece(graph_session(emit_onnx(graph), OnnxSettings()), n_bytes)


def _n_bytes(matrix: Matrix) -> int:
    if isinstance(matrix, DenseMatrix):
        return matrix.values.nbytes
    return matrix.codes.nbytes + matrix.scales.nbytes


def _embedded(weights: Weights, tokens: IntArray) -> FloatArray:
    rows = np.concatenate([weights.embedding(token, token + 1) for token in tokens.tolist()])
    scaled: FloatArray = rows * np.float32(weights.embedding_scale)
    return scaled


def _feeds(weights: Weights, n_rows: int) -> Feeds:
    """A run of the rows of a whole text: one cached cell, which nobody sees."""
    tree = CellTree(n_rows)
    tree.add(0, n_rows, None)
    masks = np.zeros((n_rows, 1), np.float32), np.zeros((n_rows, n_rows), np.float32)
    tree.fill(0, *masks)
    cell = np.zeros((weights.n_kv_heads, 1, weights.head_dim), np.float32)
    feeds: Feeds = {"mask": masks[0], "own_mask": masks[1], "past_k_0": cell, "past_v_0": cell}
    for rope, end in zip(weights.ropes, ("", "_local"), strict=False):
        table = RopeTable(rope.base, rope.n_dims, rope.factor)
        feeds[f"cos{end}"], feeds[f"sin{end}"] = rotary_table(table, weights.head_dim, n_rows)
    if len(weights.ropes) > 1:
        local = np.full_like(masks[0], UNSEEN), np.zeros_like(masks[1])
        tree.fill_window(0, weights.window, masks, local)
        feeds["mask_local"], feeds["own_mask_local"] = local
    return feeds
