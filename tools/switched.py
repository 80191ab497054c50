"""Suffix decoding without and with other texts to draft from, in one engine: which of both is said before each request.

Contract: requests come one after the other, as a measurement makes them. The two drafters share nothing.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass

from edgespec.bench.arms import Answered, EngineArm
from edgespec.draft.corpus import Corpus
from edgespec.draft.suffix import SuffixDrafter
from edgespec.spec.ports import Commit, IntArray, Needs, Plan, Rows, SequenceId
from edgespec.spec.tree import DraftTree


class SwitchedSuffix:
    """Two suffix drafters of which `is_warm` chooses one for the requests that begin from now on."""

    name = "suffix"
    needs = Needs.TOKENS

    def __init__(self, corpus: Corpus) -> None:
        self.is_warm = False
        self._cold, self._warm = SuffixDrafter(), SuffixDrafter(corpus)
        self._drafter_of: dict[SequenceId, SuffixDrafter] = {}

    def begin(self, sequence: SequenceId, prompt: IntArray) -> None:
        drafter = self._drafter_of[sequence] = self._warm if self.is_warm else self._cold
        drafter.begin(sequence, prompt)

    def propose(self, sequence: SequenceId, plan: Plan) -> DraftTree:
        return self._drafter_of[sequence].propose(sequence, plan)

    def behind(self, sequence: SequenceId) -> int:
        return self._drafter_of[sequence].behind(sequence)

    def anticipate(self, sequence: SequenceId, tree: DraftTree) -> None:
        self._drafter_of[sequence].anticipate(sequence, tree)

    def observe(self, sequence: SequenceId, commit: Commit, rows: Rows, nodes: IntArray) -> None:
        self._drafter_of[sequence].observe(sequence, commit, rows, nodes)

    def is_silent(self, sequence: SequenceId, least_claim: float = 0.0) -> bool:
        return self._drafter_of[sequence].is_silent(sequence, least_claim)

    def follow(self, sequence: SequenceId, tokens: Seq[int], least_claim: float = 0.0) -> bool:
        return self._drafter_of[sequence].follow(sequence, tokens, least_claim)

    def end(self, sequence: SequenceId) -> None:
        drafter = self._drafter_of.pop(sequence, None)
        if drafter is not None:
            drafter.end(sequence)


@dataclass(frozen=True, slots=True)
class SwitchedArm:
    """Asks the engine with the drafter that belongs to the arm."""

    inner: EngineArm
    suffix: SwitchedSuffix
    is_warm: bool

    @property
    def name(self) -> str:
        return self.inner.name

    def answer(self, prompt: Seq[int]) -> Answered:
        self._switch()
        return self.inner.answer(prompt)

    def warm_up(self, prompt: Seq[int]) -> None:
        self._switch()
        self.inner.warm_up(prompt)

    def settle(self, prompt: Seq[int]) -> None:
        self._switch()
        self.inner.settle(prompt)

    def _switch(self) -> None:
        self.suffix.is_warm = self.is_warm
