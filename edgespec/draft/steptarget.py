"""A draft network as a target of its own, one level down: it verifies what cheaper drafters guess for it.

Contract: an `edgespec.spec.ports.Target` for one sequence at a time over a `Trunk`, whose cells it shares with whoever
else uses it; trees are chains. A row of logits is -inf but for the tokens that the network ranks, which is what a draft
knows of its law. Keeping, dropping and reading are the trunk's common-prefix arithmetic. Knows no target above it.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq

import numpy as np

from edgespec.draft.trunk import Trunk
from edgespec.spec.ports import Capabilities, Commit, FloatArray, IntArray, Rows, SequenceId, VerifyRequest
from edgespec.spec.step import Ranked
from edgespec.spec.tree import is_chain


class OutOfTime(Exception):
    """Reading was broken off because the caller's time is up; what was read is kept."""


class RankedRows:
    """Rows of one pass: dense ones for a law, and as the network ranked them."""

    def __init__(self, ranked: Ranked, n_vocab: int) -> None:
        self.ranked = ranked
        self._n_vocab = n_vocab

    def logits(self, row: int) -> FloatArray:
        dense = np.full(self._n_vocab, -np.inf, np.float32)
        dense[self.ranked.ids[row]] = self.ranked.logits[row]
        return dense


class StepTarget:
    """`go_on` is asked between two calls of the network while a text is read; verify raises OutOfTime when it says no.

    rows: of the last pass.
    """

    def __init__(self, trunk: Trunk, go_on: Callable[[], bool]) -> None:
        limits = trunk.limits
        self.rows: RankedRows | None = None
        self._trunk = trunk
        self._go_on = go_on
        self._texts: dict[SequenceId, list[int]] = {}
        self._verified: list[int] = []
        self._n_pending = 0
        self._capabilities = Capabilities(
            n_ctx=limits.n_ctx,
            n_vocab=limits.n_vocab,
            max_rows=limits.max_rows,
            max_chunk=limits.n_ctx,
            max_leaves=1,
            can_rollback=True,
        )

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def extend(self, sequence: SequenceId, tokens: IntArray) -> None:
        """Only noted: the network reads it with the next pass, as far as its cells lack it."""
        self._texts.setdefault(sequence, []).extend(tokens.tolist())

    def verify(self, requests: Seq[VerifyRequest], width: int) -> list[Rows]:
        """Raises OutOfTime, ValueError for what it cannot do, EngineFailure if the network fails."""
        (request,) = requests
        if not is_chain(request.tree):
            raise ValueError("a draft network verifies chains")
        self._n_pending = len(request.pending)
        self._verified = request.pending.tolist() + request.tree.tokens.tolist()
        text = self._texts.setdefault(request.sequence, [])
        ranked = self._trunk.rank(text + self._verified, self._go_on, 1 + len(request.tree))
        if ranked is None:
            raise OutOfTime
        self.rows = RankedRows(ranked, self._capabilities.n_vocab)
        return [self.rows]

    def commit(self, sequence: SequenceId, commit: Commit) -> IntArray:
        self._texts[sequence] += self._verified[: self._n_pending + len(commit.path)]
        self._verified = []
        return commit.tokens[-1:]

    def rewind(self, sequence: SequenceId, length: int) -> int:
        text = self._texts.setdefault(sequence, [])
        del text[length:]
        return len(text)

    def length(self, sequence: SequenceId) -> int:
        return len(self._texts.get(sequence, ()))

    def release(self, sequence: SequenceId) -> None:
        self._texts.pop(sequence, None)
