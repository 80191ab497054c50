"""How much to draft: the socket, and the plain policy that takes whatever a drafter offers up to a fixed size.

A policy is asked in the order of a round: `plan` for each drafter in turn, `select` once for the whole batch, since all
trees share one pass, and `record` once the pass is over. Knows no clock and no model.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from edgespec.events import RoundReport
from edgespec.spec.cost import CostTable
from edgespec.spec.merging import merge
from edgespec.spec.ports import Capabilities, IntArray, Plan, SequenceId
from edgespec.spec.predict import BreakEven
from edgespec.spec.sequence import SequenceState
from edgespec.spec.tree import DraftTree, best_first, n_pinned, unpinned
from edgespec.spec.tree import through as through


@dataclass(frozen=True, slots=True)
class Proposed:
    """What one drafter answered, before anything is merged or cut; `seconds` is what the call took.

    n_behind: tokens it had to read before it could answer.
    """

    drafter: str
    plan: Plan
    tree: DraftTree
    seconds: float
    n_behind: int = 0


@dataclass(frozen=True, slots=True)
class Offer:
    """Everything proposed for one sequence this round, in the order of its drafters."""

    state: SequenceState
    proposed: tuple[Proposed, ...]


@dataclass(frozen=True, slots=True)
class Selection:
    """What goes into the pass for one sequence; `nodes[d][i]` is where drafter d's own node i went, -1 if cut."""

    tree: DraftTree
    nodes: tuple[IntArray, ...]


class Reason(str, Enum):
    """Why a round drafted or did not. The values are stable, for programs."""

    DRAFTED = "drafted"
    NO_DRAFTER = "no-drafter"
    NO_ROLLBACK = "no-rollback"
    LIMIT = "limit"
    UNMEASURED = "unmeasured"
    NO_MATCH = "no-match"
    NOT_WORTH_IT = "not-worth-it"
    LEDGER = "ledger"
    REFRESH = "refresh"
    SHORT_ANSWER = "short-answer"


@dataclass(frozen=True, slots=True)
class Decision:
    """What a round was expected to give: its tokens and seconds, and the seconds of a plain round instead."""

    reason: Reason
    n_sequences: int
    n_nodes: int
    n_rows: int
    expected_tokens: float
    expected_seconds: float
    plain_seconds: float

    @property
    def goodput(self) -> float:
        """Expected tokens per second."""
        return self.expected_tokens / self.expected_seconds

    @property
    def plain_goodput(self) -> float:
        return self.n_sequences / self.plain_seconds


@dataclass(frozen=True, slots=True)
class DrafterView:
    """What is believed of a drafter. acceptance: of all its steps; trust: what came true over what it claimed."""

    name: str
    n_steps: int
    acceptance: float
    trust: float
    call_seconds: float
    is_free: bool


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a policy does what it does, for people and for programs. rounds: how often each reason decided.

    load: the time of a plain pass now over its time when the table was measured. lost_seconds and headroom_seconds:
    the ledger's balance, and what it would let be risked now.
    """

    last: Decision
    rounds: dict[Reason, int]
    break_even: tuple[BreakEven, ...]
    drafters: tuple[DrafterView, ...]
    load: float
    lost_seconds: float
    headroom_seconds: float


class Policy(Protocol):
    @property
    def t1_seconds(self) -> float:
        """What plain decoding takes for a token now, of one sequence's share in the batch; 0 where nothing is known."""

    def plan(
        self,
        state: SequenceState,
        drafter: str,
        capabilities: Capabilities,
        n_sequences: int,
        offered: Seq[Proposed] = (),
        n_behind: int = 0,
    ) -> Plan:
        """What `drafter` may propose for `state`, with `n_sequences` sharing the pass.

        `offered` is what the drafters before it have proposed this round, so that an expensive one need not be called.
        `n_behind`: tokens this drafter must read before it can propose.
        """

    def select(self, offers: Seq[Offer], capabilities: Capabilities) -> list[Selection]:
        """For each sequence the part of its trees worth verifying: merged, prefix-closed, principal branch first."""

    def least_claim(self, n_sequences: int) -> float:
        """A drafter whose first guess has less survival need not be asked where so many share the pass; exact requests
        excepted.
        """

    def lets_rest(self, sequence: SequenceId) -> bool:
        """May a round be run without asking for this sequence, where nobody has anything to propose for it? One in
        which nobody is asked is told of by `rest`.
        """

    def may_ask(self, n_sequences: int) -> bool:
        """Called once in a round of so many in which somebody would be asked and nobody must be. False: nobody is to
        be, whatever they have to propose. Such a round is told of by `rest`, too.
        """

    def rest(self, states: Seq[SequenceState], report: RoundReport, n_emitted: int, draft_seconds: float) -> None:
        """Learn from such a round. report: of one of the sequences."""

    def record(self, offers: Seq[Offer], reports: Seq[RoundReport], draft_seconds: float) -> None:
        """Learn from a round. `draft_seconds`: all that plain decoding would not have spent, the pass itself excepted.

        A sequence that failed in this round has a report without tokens.
        """

    def end(self, sequence: SequenceId) -> None:
        """The answer is over, however it came to its end: what is known of it alone is no longer of use. Ending an
        unknown one is not an error.
        """

    def charge(self, seconds: float) -> None:
        """Drafters took this time outside of rounds, say to read a prompt."""

    def reprice(self, table: CostTable) -> None:
        """Passes cost what `table` says from now on: the engine runs with other settings or fewer threads."""


@dataclass(frozen=True, slots=True)
class FixedPolicy:
    """Draft up to `max_nodes` nodes and `max_leaves` leaves whenever a drafter has something to say."""

    max_nodes: int = 15
    max_leaves: int = 1

    @property
    def t1_seconds(self) -> float:
        return 0.0

    def plan(
        self,
        state: SequenceState,
        drafter: str,
        capabilities: Capabilities,
        n_sequences: int,
        offered: Seq[Proposed] = (),
        n_behind: int = 0,
    ) -> Plan:
        # An exact request's draft is one branch.
        max_leaves = 1 if state.exact else min(self.max_leaves, capabilities.max_leaves)
        # No deeper than what may still be accepted: the walk emits one token more than it accepts nodes.
        useful = (state.remaining - 1) * max_leaves
        room = min(self.max_nodes, useful, node_room(state, capabilities, n_sequences))
        return Plan(max_nodes=max(0, room), max_leaves=max_leaves)

    def select(self, offers: Seq[Offer], capabilities: Capabilities) -> list[Selection]:
        return [self._select(offer) for offer in offers]

    def _select(self, offer: Offer) -> Selection:
        merged, nodes = merge([one.tree for one in offer.proposed])
        if not len(merged):
            return Selection(merged, tuple(nodes))
        plan = max((one.plan for one in offer.proposed), key=lambda plan: plan.max_nodes)
        chosen = cut(merged, nodes, plan.max_nodes, plan.max_leaves)
        if n_pinned(chosen.tree) == n_pinned(merged):
            return chosen
        # Others may have guessed what hangs from a pinned node: without it their guesses stand on their own.
        bare = [unpinned(one.tree) for one in offer.proposed]
        merged, nodes = merge([tree for tree, _ in bare])
        nodes = [through(own_map, own) for (_, own_map), own in zip(bare, nodes, strict=True)]
        return cut(merged, nodes, plan.max_nodes, plan.max_leaves)

    def least_claim(self, n_sequences: int) -> float:
        return 0.0

    def lets_rest(self, sequence: SequenceId) -> bool:
        return True

    def may_ask(self, n_sequences: int) -> bool:
        return True

    def rest(self, states: Seq[SequenceState], report: RoundReport, n_emitted: int, draft_seconds: float) -> None:
        pass

    def record(self, offers: Seq[Offer], reports: Seq[RoundReport], draft_seconds: float) -> None:
        pass

    def end(self, sequence: SequenceId) -> None:
        pass

    def charge(self, seconds: float) -> None:
        pass

    def reprice(self, table: CostTable) -> None:
        pass


def cut(merged: DraftTree, nodes: Seq[IntArray], max_nodes: int, max_leaves: int) -> Selection:
    """The likeliest part of a merged tree within both limits. `nodes`: the node maps that `merge` returned with it."""
    best, kept = best_first(merged, max_nodes, max_leaves)
    if best is merged:
        return Selection(merged, tuple(nodes))
    return Selection(best, tuple(through(own, kept) for own in nodes))


def node_room(state: SequenceState, capabilities: Capabilities, n_sequences: int) -> int:
    """Nodes that one sequence may have verified without exceeding the context, the pass, or its width class."""
    if not capabilities.can_rollback:
        return 0
    n_rows = capabilities.max_rows // n_sequences
    if state.exact:
        n_rows = max((width for width in state.width_class if width <= n_rows), default=0)
    return max(0, min(n_rows - len(state.pending), capabilities.n_ctx - len(state.tokens)))
