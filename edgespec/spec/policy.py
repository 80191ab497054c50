"""How much to draft. The plain policy: whatever a drafter offers, up to a fixed number of nodes, within what a pass
may hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from edgespec.events import RoundReport
from edgespec.spec.ports import Capabilities, IntArray, Plan
from edgespec.spec.sequence import SequenceState
from edgespec.spec.tree import DraftTree, best_first


class Policy(Protocol):
    def plan(self, state: SequenceState, drafter: str, capabilities: Capabilities, n_sequences: int) -> Plan:
        """What `drafter` may propose for `state` this round, with `n_sequences` sharing the pass."""

    def select(self, state: SequenceState, tree: DraftTree, plan: Plan) -> tuple[DraftTree, IntArray]:
        """The part of the merged tree worth verifying, prefix-closed, principal branch first; and its node map."""

    def record(self, state: SequenceState, report: RoundReport) -> None:
        """Learn from a round."""


@dataclass(frozen=True, slots=True)
class FixedPolicy:
    """Draft up to `max_nodes` nodes and `max_leaves` leaves whenever a drafter has something to say."""

    max_nodes: int = 15
    max_leaves: int = 1

    def plan(self, state: SequenceState, drafter: str, capabilities: Capabilities, n_sequences: int) -> Plan:
        # An exact request's draft is one branch.
        max_leaves = 1 if state.exact else min(self.max_leaves, capabilities.max_leaves)
        # No deeper than what may still be accepted: the walk emits one token more than it accepts nodes.
        useful = (state.remaining - 1) * max_leaves
        room = min(self.max_nodes, useful, node_room(state, capabilities, n_sequences))
        return Plan(max_nodes=max(0, room), max_leaves=max_leaves)

    def select(self, state: SequenceState, tree: DraftTree, plan: Plan) -> tuple[DraftTree, IntArray]:
        return best_first(tree, plan.max_nodes, plan.max_leaves)

    def record(self, state: SequenceState, report: RoundReport) -> None:
        pass


def node_room(state: SequenceState, capabilities: Capabilities, n_sequences: int) -> int:
    """Nodes that one sequence may have verified without exceeding the context, the pass, or its width class."""
    if not capabilities.can_rollback:
        return 0
    n_rows = capabilities.max_rows // n_sequences
    if state.exact:
        n_rows = max((width for width in state.width_class if width <= n_rows), default=0)
    return max(0, min(n_rows - len(state.pending), capabilities.n_ctx - len(state.tokens)))
