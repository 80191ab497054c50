"""A drafter whose network is drafted for in turn: the round of `spec.round`, one level down.

Contract: it proposes the chain that `ModelDrafter` would propose from the same network, token for token, in fewer
passes of that network: cheaper drafters guess several of its tokens, and one pass of it verifies them. Inner rounds go
on until the plan's nodes, its least survival, or its deadline end them. Which of the inner drafters are asked, and for
how much, is an inner policy's to decide, from what the network's passes cost; so a level that does not pay is not used.
Calls for a sequence that has not begun raise KeyError.
"""

from __future__ import annotations

import numpy as np

from edgespec.draft.growth import Clock, Deadline
from edgespec.draft.sparse import SparseLaw
from edgespec.draft.steptarget import OutOfTime, StepTarget
from edgespec.draft.trunk import Trunk
from edgespec.errors import EngineFailure
from edgespec.events import RoundReport
from edgespec.spec.law import Law
from edgespec.spec.policy import Policy
from edgespec.spec.ports import Commit, Drafter, IntArray, Needs, Plan, Rows, SequenceId
from edgespec.spec.round import Drafting, Loop
from edgespec.spec.sequence import SequenceState
from edgespec.spec.tree import EMPTY, DraftMode, DraftTree, chain
from edgespec.spec.verify import PathVerifier, Prefix


class CascadeDrafter:
    """ports.Drafter over the network of `trunk`, for the law of one request.

    inner: guess for the network; they follow its text, which begins anew with every proposal. policy: what they may
    spend. n_inner_passes: passes of the network so far; n_drafted: tokens that they gave.
    """

    needs = Needs.TOKENS

    def __init__(
        self, trunk: Trunk, law: Law, inner: tuple[Drafter, ...], policy: Policy, clock: Clock, name: str = "cascade"
    ) -> None:
        self.name = name
        self.n_inner_passes = self.n_drafted = 0
        self._trunk = trunk
        self._law = law
        self._claims = SparseLaw(law, DraftMode.COUPLED, _no_draw)
        self._inner = inner
        self._policy = policy
        self._clock = clock
        self._texts: dict[SequenceId, list[int]] = {}

    def begin(self, sequence: SequenceId, prompt: IntArray) -> None:
        self._texts[sequence] = prompt.tolist()

    def behind(self, sequence: SequenceId) -> int:
        return self._trunk.behind(self._texts[sequence])

    def propose(self, sequence: SequenceId, plan: Plan) -> DraftTree:
        """Raises EngineFailure if the network fails."""
        text = self._texts[sequence]
        room = self._trunk.limits.n_ctx - len(text) + 1
        n_nodes = min(plan.max_nodes, room)
        if min(n_nodes, plan.max_leaves) <= 0 or not text:
            return EMPTY
        try:
            tokens, survival = self._grow(sequence, text, n_nodes, plan)
        finally:
            self._policy.end(sequence)
        self.n_drafted += len(tokens)
        return chain(tokens, survival, mode=self._claims.mode) if tokens else EMPTY

    def anticipate(self, sequence: SequenceId, tree: DraftTree) -> None:
        """Nothing: it works in turn with the target."""

    def observe(self, sequence: SequenceId, commit: Commit, rows: Rows, nodes: IntArray) -> None:
        self._texts[sequence] += commit.tokens.tolist()

    def end(self, sequence: SequenceId) -> None:
        self._texts.pop(sequence, None)
        for drafter in self._inner:
            drafter.end(sequence)

    def _grow(self, sequence: SequenceId, text: list[int], n_nodes: int, plan: Plan) -> tuple[list[int], list[float]]:
        deadline = Deadline(self._clock, plan.deadline_seconds)
        target = StepTarget(self._trunk, deadline.go_on)
        target.extend(sequence, np.array(text[:-1], np.int32))
        for drafter in self._inner:
            drafter.begin(sequence, np.array(text, np.int32))
        loop = Loop(target, self._policy, PathVerifier(), self._clock)
        state = SequenceState.start(sequence, text, self._law, n_nodes, frozenset())
        drafting = Drafting.of(state, self._inner)
        tokens: list[int] = []
        survival: list[float] = []
        while state.finish is None and (not tokens or deadline.go_on()):
            try:
                report = loop.run([drafting])[0]
            except OutOfTime:
                break
            self.n_inner_passes += 1
            for token, claim in zip(report.tokens, self._judged(target, report, text, tokens), strict=True):
                chance = (survival[-1] if survival else 1.0) * claim
                if chance < plan.min_survival:
                    return tokens, survival
                tokens.append(token)
                survival.append(chance)
            if state.failure is not None:
                break
        return tokens, survival

    def _judged(self, target: StepTarget, report: RoundReport, text: list[int], tokens: list[int]) -> list[float]:
        """How sure the network is of each token of a round."""
        assert target.rows is not None
        ranked = target.rows.ranked
        claims: list[float] = []
        for row, token in enumerate(report.tokens):
            history = Prefix(text, [*tokens, *report.tokens[:row]])
            log_sum = float(ranked.log_sums[row])
            best = self._claims.children(ranked.ids[row], ranked.logits[row], log_sum, history, 1, 0.0)
            if best.tokens != [token]:
                raise EngineFailure(
                    "the cascade", f"its network chose token {token} and ranks {best.tokens} first", "report this"
                )
            claims.append(best.claims[0])
        return claims


def _no_draw(p: object) -> int:
    raise AssertionError(f"a coupled draft draws nothing from {p}")
