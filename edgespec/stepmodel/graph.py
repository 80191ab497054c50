"""The neutral definition of a step model: a list of operations over named values, without branches on data.

It is a function of fixed shapes, n rows and S cached cells: rows of token embeddings, rotary tables, masks and the
cache in; the ranked next tokens and the rows' own keys and values out. `reference` interprets it, emitters translate
it. Values are [n, width], or by heads [heads, n, columns]; an emitter may add leading axes. Knows no runtime.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgespec.spec.ports import FloatArray
from edgespec.stepmodel.matrix import Matrix

Dim = int | str  # "n" and "S" stand for rows and cells


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of the graph."""

    name: str
    dims: tuple[Dim, ...]

    def shape(self, n_rows: int, n_cells: int) -> tuple[int, ...]:
        sizes = {"n": n_rows, "S": n_cells}
        return tuple(sizes[dim] if isinstance(dim, str) else dim for dim in self.dims)


@dataclass(frozen=True, slots=True)
class Norm:
    """x / sqrt(mean(x ** 2) + eps) * weight, over the last axis."""

    x: str
    weight: str
    eps: float
    out: str


@dataclass(frozen=True, slots=True)
class AddNorm:
    """total = x + y, and its Norm."""

    x: str
    y: str
    weight: str
    eps: float
    total: str
    out: str


@dataclass(frozen=True, slots=True)
class Linear:
    """x @ matrix.T"""

    x: str
    matrix: str
    out: str


@dataclass(frozen=True, slots=True)
class AddVector:
    x: str
    vector: str
    out: str


@dataclass(frozen=True, slots=True)
class Add:
    x: str
    y: str
    out: str


@dataclass(frozen=True, slots=True)
class Multiply:
    x: str
    y: str
    out: str


@dataclass(frozen=True, slots=True)
class Scale:
    x: str
    factor: float
    out: str


@dataclass(frozen=True, slots=True)
class Silu:
    """x / (1 + exp(-x))"""

    x: str
    out: str


@dataclass(frozen=True, slots=True)
class Gelu:
    """x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))"""

    x: str
    out: str


@dataclass(frozen=True, slots=True)
class Join:
    """Along the last axis."""

    parts: tuple[str, ...]
    out: str


@dataclass(frozen=True, slots=True)
class SplitColumns:
    """Along the last axis. sizes: columns of each part."""

    x: str
    sizes: tuple[int, ...]
    outs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SplitOwn:
    """The last n columns, those of the rows themselves, apart from the S before them."""

    x: str
    cached: str
    own: str


@dataclass(frozen=True, slots=True)
class ByHeads:
    """[n, heads * d] to [heads, n, d]."""

    x: str
    n_heads: int
    out: str


@dataclass(frozen=True, slots=True)
class FromHeads:
    """[heads, n, d] to [n, heads * d]."""

    x: str
    width: int
    out: str


@dataclass(frozen=True, slots=True)
class SplitHeads:
    """[heads, n, d] by heads."""

    x: str
    sizes: tuple[int, ...]
    outs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Give:
    """Values by heads as an output of the graph."""

    x: str
    out: str


@dataclass(frozen=True, slots=True)
class Rotate:
    """Of each row, dimension i and i + d / 2 of every head turn by the row's angle i. cos, sin: [n, d / 2]."""

    x: str
    cos: str
    sin: str
    out: str


@dataclass(frozen=True, slots=True)
class Scores:
    """Dot products of queries [heads, n, d] and keys [kv_heads, m, d]: [heads, n, m]. Neighbouring heads share keys."""

    query: str
    key: str
    out: str


@dataclass(frozen=True, slots=True)
class AddMask:
    """[heads, n, m] + mask [n, m]"""

    x: str
    mask: str
    out: str


@dataclass(frozen=True, slots=True)
class Softmax:
    """Over the last axis."""

    x: str
    out: str


@dataclass(frozen=True, slots=True)
class Mix:
    """Shares [heads, n, m] of values [kv_heads, m, d]: [heads, n, d]."""

    shares: str
    value: str
    out: str


@dataclass(frozen=True, slots=True)
class Top:
    """The k largest of each row and their columns, best first; of equals the first."""

    x: str
    k: int
    values: str
    columns: str


@dataclass(frozen=True, slots=True)
class LogSumExp:
    """Over the last axis, which goes."""

    x: str
    out: str


Node = (
    Norm | AddNorm | Linear | AddVector | Add | Multiply | Scale | Silu | Gelu | Join | SplitColumns | SplitOwn
    | ByHeads | FromHeads | SplitHeads | Give | Rotate | Scores | AddMask | Softmax | Mix | Top | LogSumExp
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Graph:
    """nodes: in an order in which they can run. Head counts: queries share keys in groups of n_heads / n_kv_heads."""

    n_heads: int
    n_kv_heads: int
    head_dim: int
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    nodes: tuple[Node, ...]
    matrices: Mapping[str, Matrix]
    vectors: Mapping[str, FloatArray]
