"""What one verify pass may hold. llama.cpp aborts the process, or computes wrong logits in silence, beyond it."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass

from edgespec.backend.llama.layout import n_leaves
from edgespec.spec.ports import VerifyRequest


@dataclass(frozen=True, slots=True)
class PassLimits:
    """max_rows: rows of all sequences and padding together. max_leaves: leaves of one tree.

    can_rollback: False for a running state, which takes one token of each sequence and no padding.
    """

    max_rows: int
    max_leaves: int
    can_rollback: bool

    def check(self, requests: Seq[VerifyRequest], width: int) -> None:
        """Raises ValueError unless the requests may share a pass of `width` rows."""
        names = {request.sequence for request in requests}
        require(len(names) == len(requests), "a sequence twice in one pass")
        n_rows = 0
        for request in requests:
            n_rows += self._rows(request)
        require(1 <= n_rows <= width <= self.max_rows, f"a width of {width} for {n_rows} rows of {self.max_rows}")
        require(self.can_rollback or n_rows == width, "padding without rollback")

    def _rows(self, request: VerifyRequest) -> int:
        n_pending, n_nodes = len(request.pending), len(request.tree)
        require(n_pending >= 1, f"sequence {request.sequence} without a pending token")
        require(self.can_rollback or n_pending + n_nodes == 1, "drafts without rollback")
        n = n_leaves(request.tree.parents.tolist())
        require(n <= self.max_leaves, f"a tree of {n} leaves, {self.max_leaves} are possible")
        return n_pending + n_nodes


def require(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(f"the target cannot take {what}")
