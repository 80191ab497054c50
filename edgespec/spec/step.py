"""The socket of a draft network: rows of tokens in, the likeliest next tokens of each row out.

The caller owns the write position: a run overwrites whatever its cells held, so rolling back is arithmetic. Cells form
a tree: each row continues one earlier cell and sees that cell's ancestors and itself, so rows may be branches. Token
ids are the target's, also where a draft has a vocabulary of its own. Knows no file, no engine and no clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from edgespec.spec.ports import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class StepLimits:
    """What a draft network can do.

    n_ctx: cells of its cache. n_vocab: the target's token ids it was made for, all of them. n_ranked: next tokens that
    a run returns per row. max_rows: rows of one run. max_chunk: tokens of one read. branches: whether a row may
    continue any earlier cell; else each row continues the cell before it.
    """

    n_ctx: int
    n_vocab: int
    n_ranked: int
    max_rows: int
    max_chunk: int
    branches: bool


@dataclass(frozen=True, slots=True)
class Ranked:
    """The likeliest next tokens of each row, best first; of equals the lower id.

    ids: int32[n, k]. logits: float32[n, k]. log_sums: float32[n], the log-sum-exp of the draft's whole row, so that
    exp(logits - log_sums) is the draft's own probability at temperature 1.
    """

    ids: IntArray
    logits: FloatArray
    log_sums: FloatArray


class StepModel(Protocol):
    """A draft network with one cache. Used by one thread at a time. Raises EngineFailure when the engine fails."""

    @property
    def name(self) -> str: ...

    @property
    def limits(self) -> StepLimits: ...

    def run(self, tokens: IntArray, start: int, parents: IntArray | None = None) -> Ranked:
        """Write row i, tokens[i], into cell start + i and rank what follows it.

        parents: int32[n], the cell that each row continues, before its own, -1 for none; None: the cell before it.
        Cells from start + n on are forgotten. Raises ValueError beyond the limits, or where `start` leaves a gap.
        """

    def read(self, tokens: IntArray, start: int) -> None:
        """As `run` of a chain of at most `max_chunk` tokens, ranking nothing."""

    def keep(self, cells: IntArray, start: int) -> None:
        """The branch of these cells, ascending and none before `start`, becomes the cells start, start + 1, ...; what
        lies behind is forgotten. The first continues the cell start - 1, each other the one before it. An empty branch
        forgets all from `start` on.
        """

    def close(self) -> None:
        """Free what it holds. Closing twice is harmless."""
