"""The one loop: call, propose, merge, select, anticipate, verify, walk, commit, observe, record, for a batch of
sequences.

Plain decoding is an empty tree, so there is no second code path. Every round emits at least one token per sequence,
unless its law finds none to choose: that sequence fails alone. The clock is handed in; nothing here knows a model, a
thread or a text.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np

from edgespec.errors import EdgeSpecError
from edgespec.events import RoundReport
from edgespec.spec.policy import Policy
from edgespec.spec.ports import Commit, Drafter, IntArray, Plan, Rows, Target, Verifier, VerifyRequest
from edgespec.spec.sequence import SequenceState
from edgespec.spec.tree import DraftTree, best_first, child_table, is_chain, merge

Clock = Callable[[], float]
_NOTHING = Commit(np.empty(0, np.int32), np.empty(0, np.int32))


@dataclass(frozen=True, slots=True)
class Drafting:
    """One sequence with those who guess for it."""

    state: SequenceState
    drafters: tuple[Drafter, ...]


@dataclass(frozen=True, slots=True)
class Proposal:
    """What goes into the pass for one sequence; `nodes[d][i]` is where drafter d's own node i went, -1 if cut."""

    tree: DraftTree
    nodes: tuple[IntArray, ...]
    seconds: float
    n_pending: int


@dataclass(frozen=True, slots=True)
class Loop:
    """What a round needs beside its sequences; the same for every round."""

    target: Target
    policy: Policy
    verifier: Verifier
    clock: Clock

    def run(self, batch: Seq[Drafting]) -> list[RoundReport]:
        """One target pass over all sequences; their states are advanced, one report each comes back.

        Raises what the target raises. An EdgeSpecError of one sequence's law becomes its state's `failure`, with a
        report without tokens; it is raised when that sequence is run again.
        """
        for one in batch:
            if one.state.failure is not None:
                raise one.state.failure
        started = self.clock()
        proposals = [self._propose(one, len(batch)) for one in batch]
        for one, proposal in zip(batch, proposals, strict=True):
            for drafter in one.drafters:
                drafter.anticipate(one.state.id, proposal.tree)
        n_rows, width = self._width(batch, proposals)
        before_verify = self.clock()
        rows = self.target.verify([self._request(o, p) for o, p in zip(batch, proposals, strict=True)], width)
        verify_seconds = self.clock() - before_verify
        commits = [self._settle(o, p, r) for o, p, r in zip(batch, proposals, rows, strict=True)]
        seconds = self.clock() - started
        return [
            self._report(one, proposal, commit, n_rows, width, verify_seconds, seconds)
            for one, proposal, commit in zip(batch, proposals, commits, strict=True)
        ]

    def _propose(self, one: Drafting, n_sequences: int) -> Proposal:
        started = self.clock()
        capabilities = self.target.capabilities
        plans = [self.policy.plan(one.state, d.name, capabilities, n_sequences) for d in one.drafters]
        trees = [d.propose(one.state.id, plan) for d, plan in zip(one.drafters, plans, strict=True)]
        merged, maps = merge(trees)
        if plans and len(merged):
            chosen, kept = self._select(one.state, merged, max(plans, key=lambda p: p.max_nodes))
            if chosen is not merged:
                maps = [_through(own, kept) for own in maps]
            merged = chosen
        return Proposal(merged, tuple(maps), self.clock() - started, len(one.state.pending))

    def _select(self, state: SequenceState, tree: DraftTree, plan: Plan) -> tuple[DraftTree, IntArray]:
        """The policy's choice; of it an exact request verifies one branch only.

        The cells of another branch lie behind those of the first, which may change the order of summation and thereby
        the last bits of its rows (seen with libllama, flash attention off).
        """
        chosen, kept = self.policy.select(state, tree, plan)
        if not state.exact or is_chain(chosen):
            return chosen, kept
        branch, in_branch = best_first(chosen, len(chosen), 1)
        return branch, _through(kept, in_branch)

    def _width(self, batch: Seq[Drafting], proposals: Seq[Proposal]) -> tuple[int, int]:
        """Rows that count, and the width they are padded to: the next one inside an exact request's class."""
        n_rows = sum(len(one.state.pending) + len(p.tree) for one, p in zip(batch, proposals, strict=True))
        classes = [one.state.width_class for one in batch if one.state.exact]
        if not classes:
            return n_rows, n_rows
        return n_rows, min(width for width in classes[0] if width >= n_rows)

    def _request(self, one: Drafting, proposal: Proposal) -> VerifyRequest:
        return VerifyRequest(one.state.id, one.state.pending, proposal.tree, canonical=one.state.exact)

    def _settle(self, one: Drafting, proposal: Proposal, rows: Rows) -> Commit:
        """Walk, commit, observe: the state afterwards holds the verdict."""
        state = one.state
        limit = max(1, state.remaining)
        try:
            commit = self.verifier.walk(proposal.tree, rows, state.law, state.tokens, limit, state.end_tokens)
        except EdgeSpecError as error:
            state.failure = error
            return _NOTHING
        for drafter, nodes in zip(one.drafters, proposal.nodes, strict=True):
            drafter.observe(state.id, commit, rows, nodes)
        state.accept(commit.tokens.tolist(), self.target.commit(state.id, commit))
        return commit

    def _report(
        self,
        one: Drafting,
        proposal: Proposal,
        commit: Commit,
        n_rows: int,
        width: int,
        verify_seconds: float,
        seconds: float,
    ) -> RoundReport:
        sources = _sources(one, proposal, commit)
        report = RoundReport(
            n_rows=width,
            n_padded=width - n_rows,
            n_drafted=len(proposal.tree),
            n_accepted=sum(1 for source in sources if source),
            tokens=tuple(commit.tokens.tolist()),
            sources=sources,
            propose_seconds=proposal.seconds,
            verify_seconds=verify_seconds,
            seconds=seconds,
            n_pending=proposal.n_pending,
            tree_tokens=tuple(proposal.tree.tokens.tolist()),
            tree_parents=tuple(proposal.tree.parents.tolist()),
            path=tuple(commit.path.tolist()),
        )
        one.state.counts.add(report)
        self.policy.record(one.state, report)
        return report


def _through(nodes: IntArray, node_map: IntArray) -> IntArray:
    """Node numbers taken through one more map; -1 stays -1."""
    final = [*node_map.tolist(), -1]
    return np.array([final[node] for node in nodes.tolist()], np.int32)


def _sources(one: Drafting, proposal: Proposal, commit: Commit) -> tuple[str, ...]:
    """For each emitted token the name of the drafter that had guessed it, "" for the target's own.

    A limit or an end token may end the walk on a guessed token: it takes the bonus' place, but it was guessed.
    """
    tree, tokens = proposal.tree, commit.tokens.tolist()
    if not tokens or not len(tree):
        return ("",) * len(tokens)
    nodes: list[int] = commit.path.tolist()
    if one.state.finish is not None:  # else the last token is the bonus, which no child carries
        last = child_table(tree).get((nodes[-1] if nodes else -1, tokens[-1]))
        nodes += [] if last is None else [last]
    names = [one.drafters[source].name for source in tree.sources[nodes].tolist()]
    return (*names, *[""] * (len(tokens) - len(names)))
