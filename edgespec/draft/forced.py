"""Drafts what a grammar leaves no choice about: fixed parts of a schema, closing brackets, the end token.

Contract: one drafter serves one request under one grammar; a proposal is a chain. A token that is the only one allowed
has survival 1. Where only the bytes are forced, the vocabulary's own tokenisation of them is drafted, at the rate at
which such guesses came true. What is forced is asked by the output so far, never by a state of its own. Calls for a
sequence that has not begun raise KeyError. It knows tokens only.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from edgespec.draft.branch import Branch, grow
from edgespec.draft.rates import Rates
from edgespec.spec.allowed import Continuation, ForcedTokens, Forcing
from edgespec.spec.ports import Commit, IntArray, Needs, Plan, Rows, SequenceId
from edgespec.spec.tree import EMPTY, DraftTree

# Starting rates, replaced by what is observed; of SOLE it never is less. Models mostly keep to their own tokenisation,
# but at its edge text that they are free to choose decides which token it is. They end with the token they always use.
_RATES = {Forcing.SOLE: 1.0, Forcing.INNER: 0.8, Forcing.EDGE: 0.6, Forcing.END: 0.8}


def _start_rates() -> Rates:
    return Rates([_RATES[reason] for reason in Forcing])


@dataclass(slots=True)
class Habits:
    """How a model spells what is forced, and the token that it ends with: learnt over all requests."""

    rates: Rates = field(default_factory=_start_rates)
    end: int | None = None


class ForcedDrafter:
    """`continuation`: what the grammar forces after an output. `habits`: shared by the drafters of one engine."""

    name = "forced"
    needs = Needs.TOKENS

    def __init__(self, continuation: Continuation, habits: Habits | None = None) -> None:
        self._continuation = continuation
        self._habits = habits or Habits()
        self._outputs: dict[SequenceId, list[int]] = {}
        self._drafts: dict[SequenceId, Branch] = {}

    def begin(self, sequence: SequenceId, prompt: IntArray) -> None:
        """The grammar is about the output, so what the prompt says does not matter."""
        self._outputs[sequence] = []
        self._drafts.pop(sequence, None)

    def propose(self, sequence: SequenceId, plan: Plan) -> DraftTree:
        output = self._outputs[sequence]
        if plan.max_nodes <= 0 or plan.max_leaves <= 0:
            return EMPTY
        forced = self._continuation(output, plan.max_nodes, self._habits.end)
        if not forced.tokens:
            return EMPTY
        draft = self._drafts[sequence] = _branch(forced)
        return grow([draft], self._habits.rates, plan)

    def behind(self, sequence: SequenceId) -> int:
        return 0

    def anticipate(self, sequence: SequenceId, tree: DraftTree) -> None:
        """Nothing to prepare: a proposal costs some 50 us."""

    def observe(self, sequence: SequenceId, commit: Commit, rows: Rows, nodes: IntArray) -> None:
        """Guesses are scored against the commit, also those that were cut from the verified tree."""
        emitted: list[int] = commit.tokens.tolist()
        self._outputs[sequence] += emitted
        draft = self._drafts.pop(sequence, None)
        if draft is not None:
            draft.learn(self._habits.rates, emitted)
            self._learn_end(draft, emitted)

    def end(self, sequence: SequenceId) -> None:
        self._outputs.pop(sequence, None)
        self._drafts.pop(sequence, None)

    def _learn_end(self, draft: Branch, emitted: list[int]) -> None:
        """An end guessed last in the draft: if all before it came, what came then is how the model ends."""
        n_before = len(draft.tokens) - 1
        reached = len(emitted) > n_before and emitted[:n_before] == draft.tokens[:n_before]
        if reached and draft.situations[-1] == Forcing.END:
            self._habits.end = emitted[n_before]


def _branch(forced: ForcedTokens) -> Branch:
    return Branch(forced.tokens, [int(reason) for reason in forced.reasons])
