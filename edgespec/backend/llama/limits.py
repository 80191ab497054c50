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
        if len(requests) > 1 and len({request.sequence for request in requests}) < len(requests):
            raise refusal("a sequence twice in one pass")
        n_rows = sum(map(self._rows, requests))
        if not 1 <= n_rows <= width <= self.max_rows:
            raise refusal(f"a width of {width} for {n_rows} rows of {self.max_rows}")
        if not self.can_rollback and n_rows < width:
            raise refusal("padding without rollback")

    def _rows(self, request: VerifyRequest) -> int:
        n_pending, n_nodes = len(request.pending), len(request.tree)
        if n_pending < 1:
            raise refusal(f"sequence {request.sequence} without a pending token")
        if not self.can_rollback and n_pending + n_nodes > 1:
            raise refusal("drafts without rollback")
        if not n_nodes:
            return n_pending
        n = n_leaves(request.tree.parents.tolist())
        if n > self.max_leaves:
            raise refusal(f"a tree of {n} leaves, {self.max_leaves} are possible")
        return n_pending + n_nodes


def refusal(what: str) -> ValueError:
    return ValueError(f"the target cannot take {what}")


def require(condition: bool, what: str) -> None:
    if not condition:
        raise refusal(what)
