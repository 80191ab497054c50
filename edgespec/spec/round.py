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
from edgespec.spec.policy import Offer, Policy, Proposed, Selection, cut
from edgespec.spec.ports import Commit, Drafter, Follower, IntArray, Rows, Target, Verifier, VerifyRequest
from edgespec.spec.sequence import SequenceState
from edgespec.spec.tree import EMPTY, DraftTree, child_table, is_chain

Clock = Callable[[], float]
_NO_NODES: IntArray = np.empty(0, np.int32)
_NOTHING = Commit(_NO_NODES, _NO_NODES)


@dataclass(frozen=True, slots=True)
class Drafting:
    """One sequence with those who guess for it. follower: the only one, if it knows when it has nothing to propose."""

    state: SequenceState
    drafters: tuple[Drafter, ...]
    follower: Follower | None = None

    @classmethod
    def of(cls, state: SequenceState, drafters: tuple[Drafter, ...]) -> Drafting:
        only = drafters[0] if len(drafters) == 1 else None
        return cls(state, drafters, only if isinstance(only, Follower) else None)

    @property
    def rests(self) -> bool:
        """Is there nothing to ask in the next round?"""
        return self.state.silent or not self.drafters


@dataclass(frozen=True, slots=True)
class Proposal:
    """What goes into the pass for one sequence; `nodes[d][i]` is where drafter d's own node i went, -1 if cut."""

    tree: DraftTree
    nodes: tuple[IntArray, ...]
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
        may_rest = [self.policy.lets_rest(one.state.id) for one in batch]
        rests = [may and one.rests for may, one in zip(may_rest, batch, strict=True)]
        if all(rests) or (all(may_rest) and not self.policy.may_ask(len(batch))):
            return [self._rest_alone(batch[0])] if len(batch) == 1 else self._rest(batch)
        started = self.clock()
        offers = [
            Offer(one.state, ()) if is_at_rest else self._offer(one, len(batch))
            for one, is_at_rest in zip(batch, rests, strict=True)
        ]
        chosen = self.policy.select(offers, self.target.capabilities)
        proposals = [_proposal(offer, selection) for offer, selection in zip(offers, chosen, strict=True)]
        for one, offer, proposal in zip(batch, offers, proposals, strict=True):
            for drafter in one.drafters if offer.proposed else ():
                drafter.anticipate(one.state.id, proposal.tree)
        n_rows = sum(len(one.state.pending) + len(p.tree) for one, p in zip(batch, proposals, strict=True))
        width = _width(batch, n_rows)
        before_verify = self.clock()
        rows = self.target.verify([self._request(o, p) for o, p in zip(batch, proposals, strict=True)], width)
        taken = (before_verify - started, self.clock() - before_verify)
        settled = [self._settle(o, p, r, len(batch)) for o, p, r in zip(batch, proposals, rows, strict=True)]
        seconds = self.clock() - started
        reports = [
            self._report(one, proposal, commit, n_rows, width, (*taken, seconds))
            for one, proposal, (commit, _) in zip(batch, proposals, settled, strict=True)
        ]
        self.policy.record(offers, reports, taken[0] + sum(observing for _, observing in settled))
        return reports

    def _rest(self, batch: Seq[Drafting]) -> list[RoundReport]:
        """A round in which nobody can propose anything, or nobody may: as with empty trees, but nobody is asked. Most
        rounds are such ones, and after a pass every line of ours is slow, since the weights have swept the caches.
        """
        started = self.clock()
        n_pending = [len(one.state.pending) for one in batch]
        width = _width(batch, sum(n_pending))
        requests = [VerifyRequest(one.state.id, one.state.pending, EMPTY, one.state.exact) for one in batch]
        before_verify = self.clock()
        rows = self.target.verify(requests, width)
        verified = self.clock()
        commits = [self._take(one.state, own) for one, own in zip(batch, rows, strict=True)]
        emitted: list[list[int]] = [commit.tokens.tolist() for commit in commits]
        before_following = self.clock()
        for one, commit, tokens, own in zip(batch, commits, emitted, rows, strict=True):
            if tokens:
                self._tell(one, commit, tokens, own, len(batch))
        ended = self.clock()
        taken = (before_verify - started, verified - before_verify, ended - started)
        n_padded = width - sum(n_pending)
        reports = [
            RoundReport(width, n_padded, 0, 0, tuple(tokens), ("",) * len(tokens), *taken, n)
            for tokens, n in zip(emitted, n_pending, strict=True)
        ]
        for one, report in zip(batch, reports, strict=True):
            one.state.counts.add(report)
        following = ended - before_following if any(one.drafters for one in batch) else 0.0
        self.policy.rest([one.state for one in batch], reports[0], sum(map(len, emitted)), following)
        return reports

    def _rest_alone(self, one: Drafting) -> RoundReport:
        """The same for one sequence, which is how nearly every answer is made."""
        state = one.state
        started = self.clock()
        n_pending = len(state.pending)
        width = _width((one,), n_pending) if state.width_class else n_pending
        request = VerifyRequest(state.id, state.pending, EMPTY, bool(state.width_class))
        before_verify = self.clock()
        rows = self.target.verify((request,), width)[0]
        verified = self.clock()
        commit = self._take(state, rows)
        tokens: list[int] = commit.tokens.tolist()
        following = 0.0
        if tokens and one.drafters:
            before_following = self.clock()
            self._tell(one, commit, tokens, rows, 1)
            following = self.clock() - before_following
        taken = (before_verify - started, verified - before_verify, self.clock() - started)
        report = RoundReport(width, width - n_pending, 0, 0, tuple(tokens), ("",) * len(tokens), *taken, n_pending)
        state.counts.add(report)
        self.policy.rest((state,), report, len(tokens), following)
        return report

    def _tell(self, one: Drafting, commit: Commit, tokens: list[int], rows: Rows, n_sequences: int) -> None:
        """What was committed in a round in which it was not asked for a guess."""
        state, follower = one.state, one.follower
        if state.silent and follower is not None:
            state.silent = follower.follow(state.id, tokens, self._least(state, n_sequences))
            return
        for drafter in one.drafters:
            drafter.observe(state.id, commit, rows, _NO_NODES)
        state.silent = follower is not None and follower.is_silent(state.id, self._least(state, n_sequences))

    def _least(self, state: SequenceState, n_sequences: int) -> float:
        """Where passes are padded, every guess is free."""
        return 0.0 if state.exact else self.policy.least_claim(n_sequences)

    def _take(self, state: SequenceState, rows: Rows) -> Commit:
        """The target's own next token, committed."""
        commit = self._walk(state, EMPTY, rows)
        if commit is not _NOTHING:
            state.accept(commit.tokens.tolist(), self.target.commit(state.id, commit))
        return commit

    def _offer(self, one: Drafting, n_sequences: int) -> Offer:
        proposed: list[Proposed] = []
        for drafter in one.drafters:
            n_behind = drafter.behind(one.state.id)
            plan = self.policy.plan(one.state, drafter.name, self.target.capabilities, n_sequences, proposed, n_behind)
            started = self.clock()
            tree = drafter.propose(one.state.id, plan)
            proposed.append(Proposed(drafter.name, plan, tree, self.clock() - started, n_behind))
        return Offer(one.state, tuple(proposed))

    def _request(self, one: Drafting, proposal: Proposal) -> VerifyRequest:
        return VerifyRequest(one.state.id, one.state.pending, proposal.tree, canonical=one.state.exact)

    def _settle(self, one: Drafting, proposal: Proposal, rows: Rows, n_sequences: int) -> tuple[Commit, float]:
        """Walk, observe, commit: the state afterwards holds the verdict. Returns it with the seconds of observing."""
        state = one.state
        commit = self._walk(state, proposal.tree, rows)
        if commit is _NOTHING:
            return commit, 0.0
        before_observe = self.clock()
        if one.drafters and not proposal.nodes:
            self._tell(one, commit, commit.tokens.tolist(), rows, n_sequences)
        else:
            for drafter, nodes in zip(one.drafters, proposal.nodes, strict=True):
                drafter.observe(state.id, commit, rows, nodes)
            follower = one.follower
            state.silent = follower is not None and follower.is_silent(state.id, self._least(state, n_sequences))
        observe_seconds = self.clock() - before_observe
        state.accept(commit.tokens.tolist(), self.target.commit(state.id, commit))
        return commit, observe_seconds

    def _walk(self, state: SequenceState, tree: DraftTree, rows: Rows) -> Commit:
        """The verdict; _NOTHING where the law finds no token to choose, which is the state's failure."""
        try:
            limit = max(1, state.remaining)
            commit = self.verifier.walk(tree, rows, state.law, state.tokens, limit, state.end_tokens)
            if state.scorer is not None:
                state.scorer.add(commit, rows)
        except EdgeSpecError as error:
            state.failure = error
            return _NOTHING
        return commit

    def _report(
        self,
        one: Drafting,
        proposal: Proposal,
        commit: Commit,
        n_rows: int,
        width: int,
        taken: tuple[float, float, float],
    ) -> RoundReport:
        """`taken`: seconds of proposing, of the pass, and of the whole round."""
        sources = _sources(one, proposal, commit)
        report = RoundReport(
            n_rows=width,
            n_padded=width - n_rows,
            n_drafted=len(proposal.tree),
            n_accepted=sum(1 for source in sources if source),
            tokens=tuple(commit.tokens.tolist()),
            sources=sources,
            propose_seconds=taken[0],
            verify_seconds=taken[1],
            seconds=taken[2],
            n_pending=proposal.n_pending,
            tree_tokens=tuple(proposal.tree.tokens.tolist()),
            tree_parents=tuple(proposal.tree.parents.tolist()),
            path=tuple(commit.path.tolist()),
        )
        one.state.counts.add(report)
        return report


def _width(batch: Seq[Drafting], n_rows: int) -> int:
    """What `n_rows` rows are padded to: the next width inside an exact request's class."""
    classes = [one.state.width_class for one in batch if one.state.width_class]
    return min(width for width in classes[0] if width >= n_rows) if classes else n_rows


def _proposal(offer: Offer, chosen: Selection) -> Proposal:
    """What the policy chose; of it an exact request verifies one branch only.

    The cells of another branch lie behind those of the first, which may change the order of summation and thereby the
    last bits of its rows (seen with libllama, flash attention off).
    """
    if offer.state.exact and not is_chain(chosen.tree):
        chosen = cut(chosen.tree, chosen.nodes, len(chosen.tree), 1)
    return Proposal(chosen.tree, chosen.nodes, len(offer.state.pending))


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
