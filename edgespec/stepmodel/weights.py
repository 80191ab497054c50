"""What a transformer of the llama family consists of, whatever file it came from: the input of the graph.

Rows of the query and key matrices are in the half-split rotary layout: dimension i turns with i + head_dim / 2. Knows
no file format and no inference library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from edgespec.spec.ports import FloatArray
from edgespec.stepmodel.matrix import Matrix


class Activation(str, Enum):
    SILU = "silu"
    GELU = "gelu"  # the approximation by tanh


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary angles are `position / factor * base ** (-2 * i / n_dims)`."""

    base: float
    n_dims: int
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Block:
    """One layer. Norm weights and biases are float32 vectors, None where the architecture has none.

    number: its place in the model. is_local: it sees only a sliding window, and turns by the second rotary table.
    """

    number: int
    attention_norm: FloatArray
    query: Matrix
    key: Matrix
    value: Matrix
    output: Matrix
    ffn_norm: FloatArray
    gate: Matrix
    up: Matrix
    down: Matrix
    query_bias: FloatArray | None = None
    key_bias: FloatArray | None = None
    value_bias: FloatArray | None = None
    query_norm: FloatArray | None = None
    key_norm: FloatArray | None = None
    post_attention_norm: FloatArray | None = None
    post_ffn_norm: FloatArray | None = None
    is_local: bool = False


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """token_hash: sha256 in hex over the spellings of all ids, in order, each as its length in bytes, 4 bytes little
    endian, and then its UTF-8 bytes. control_ids: tokens that are no text, ascending.
    """

    n_vocab: int
    token_hash: str
    control_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Weights:
    """A whole model.

    embedding: rows [start, stop) of the token table, float32[stop - start, width], not yet scaled. score_scale: what
    dot products of queries and keys are multiplied by. ropes: one table, or the global and the local one. window:
    tokens that a local layer sees, itself among them; 0 without local layers. head: [n_vocab, width].
    """

    architecture: str
    name: str
    width: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    eps: float
    score_scale: float
    embedding_scale: float
    activation: Activation
    ropes: tuple[Rope, ...]
    window: int
    n_ctx: int
    vocabulary: Vocabulary
    embedding: Callable[[int, int], FloatArray]
    blocks: tuple[Block, ...]
    out_norm: FloatArray
    head: Matrix
