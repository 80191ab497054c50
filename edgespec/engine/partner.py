"""The second model at work in an engine: where its network runs, and a drafter of it for every request.

Its network runs in turn with the target, in the target's own thread, or beside it, in a thread of its own on a core
that the target leaves free; which one was predicted to be faster from what both cost here. Used by the worker's thread.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import replace
from functools import partial

from edgespec.choice import CASCADE
from edgespec.draft.cascade import CascadeDrafter
from edgespec.draft.corpus import Corpus
from edgespec.draft.growth import Clock
from edgespec.draft.model import ModelDrafter
from edgespec.draft.pipeline import Pipeline, PipelineCounts, PipelinedDrafter
from edgespec.draft.suffix import SuffixDrafter
from edgespec.draft.trunk import Trunk
from edgespec.engine.pace import Level, ladder
from edgespec.engine.second import Second
from edgespec.spec.cost import CostTable, DraftCosts
from edgespec.spec.latency import Beside, Candidate, Draft, Placement
from edgespec.spec.law import Law
from edgespec.spec.measured import MeasuredPolicy
from edgespec.spec.placement import Choice, choose
from edgespec.spec.policy import Policy
from edgespec.spec.ports import Drafter
from edgespec.spec.step import StepModel
from edgespec.spec.tree import DraftMode
from edgespec.tune.pair import PairTimes, StepTimes
from edgespec.tune.tuning import Tuned

# Before a draft was ever tried: the share of its tokens that the target says, too.
PRIOR_ACCEPTANCE = 0.7
# How often the target's token is the draft's second, third, ... guess where it is not its first: as in published
# traces of small drafts.
RANKS = (0.45, 0.15, 0.08, 0.05)
# Longer chains are never predicted to pay.
MAX_DRAFT = 15
# A branch that came true is proposed without waiting once it has this share of what is wanted.
AT_ONCE = 0.5
# Drafts are priced for texts of this length.
_CONTEXT = 256


class Partner:
    """times: what its steps cost here. choice: the ways to run it that were weighed, and the one taken. below: drafts
    for this one in a cascade, always in turn.

    Raises nothing before a network is made; then what `Second.make` raises, inside `propose`, where it is isolated.
    """

    def __init__(
        self, second: Second, times: PairTimes, choice: Choice | None, clock: Clock, below: Partner | None = None
    ) -> None:
        self.second = second
        self.times = times
        self.choice = choice
        self._clock = clock
        self._trunk: Trunk | None = None
        self._step: StepModel | None = None
        self._pipeline: Pipeline | None = None
        self._below = below
        self._inner: MeasuredPolicy | None = None
        if self.is_beside:
            make = partial(second.make, times.beside.n_threads)
            self._pipeline = Pipeline(make, second.name, clock, at_once=AT_ONCE)

    @property
    def name(self) -> str:
        return self.second.name

    @property
    def is_beside(self) -> bool:
        return self.choice is not None and self.choice.best.placement is Placement.OVERLAPPED

    @property
    def may_pay(self) -> bool:
        """Whether it is worth trying at all, of all ways to run it."""
        return self.choice is not None and self.choice.best.placement is not Placement.PLAIN

    @property
    def counts(self) -> PipelineCounts | None:
        """What came of working beside the target; None in turn with it."""
        return self._pipeline.counts if self._pipeline else None

    def work_ahead(self, may: bool) -> None:
        """Whether it may work during the target's next passes, because a core is left to it."""
        if self._pipeline is not None:
            self._pipeline.ahead = may

    def drafter(self, law: Law, mode: DraftMode = DraftMode.COUPLED) -> Drafter:
        """For one request. mode: how it chooses its guesses; only coupled ones can be made beside the target."""
        if self._pipeline is not None and mode is DraftMode.COUPLED:
            return PipelinedDrafter(self._pipeline, law)
        return ModelDrafter(self._opened(), law, self._clock, mode)

    def cascade(self, law: Law, corpus: Corpus | None) -> Drafter:
        """For one request: it drafts in turn with the target, and is drafted for by what needs no model, and by a
        third model where there is one.
        """
        inner: list[Drafter] = [SuffixDrafter(corpus)]
        if self._below is not None:
            inner.append(self._below.drafter(law))
        return CascadeDrafter(self._opened(), law, tuple(inner), self._inner_policy(), self._clock, CASCADE)

    def _inner_policy(self) -> Policy:
        if self._inner is None:
            rows = self.times.in_turn.row_seconds
            table = CostTable((0,), tuple(n for n, _ in rows), (tuple(seconds for _, seconds in rows),))
            costs = {self._below.name: self._below.costs()} if self._below else None
            self._inner = MeasuredPolicy(table, costs)
        return self._inner

    def _opened(self) -> Trunk:
        if self._trunk is None:
            self._step = self.second.make(self.times.in_turn.n_threads)
            self._trunk = Trunk(self._step)
        return self._trunk

    def costs(self) -> DraftCosts:
        """What its calls take, before any was made: beside the target, those that were not foreseen."""
        times = self.times.beside if self.is_beside else self.times.in_turn
        step = times.step(_CONTEXT)
        return DraftCosts([(n, n * step) for n in (1, 4, MAX_DRAFT)], times.read_seconds)

    def all_costs(self) -> dict[str, DraftCosts]:
        """Of every drafter that needs this model, by name."""
        return {self.name: self.costs(), CASCADE: self.costs()}

    def levels(self, tuned: Tuned | None) -> tuple[Level, ...]:
        """The threads that are left to the target while this works beside it, and fewer."""
        n_left = self.times.target_threads
        if tuned is None:
            return ladder(n_left)
        table = left_for(tuned.table, tuned.alone, tuned.settings.n_threads, n_left)
        return ladder(n_left, 0, replace(tuned, table=table))

    def close(self) -> None:
        if self._pipeline is not None:
            self._pipeline.close()
        if self._step is not None:
            self._step.close()
        if self._below is not None:
            self._below.close()


def weigh(table: CostTable, fewer: CostTable, times: PairTimes, survivals: Seq[float], margin: float = 1.0) -> Choice:
    """Plain decoding, drafting in turn, and drafting beside the target with fewer threads for it: what is fastest.

    table: passes with all threads; fewer: with those left beside the draft. survivals: by depth, of the draft's tokens.
    """
    plain = tuple(table.steps(_CONTEXT))
    beside = Beside(times.kappa_target, times.kappa_draft)
    return choose(
        [
            Candidate(Placement.PLAIN, plain),
            Candidate(Placement.SERIAL, plain, _draft(times.in_turn, survivals)),
            Candidate(Placement.OVERLAPPED, tuple(fewer.steps(_CONTEXT)), _draft(times.beside, survivals), beside),
        ],
        max_nodes=MAX_DRAFT,
        margin=margin,
    )


def _draft(times: StepTimes, survivals: Seq[float]) -> Draft:
    return Draft(times.step(_CONTEXT), tuple(survivals), RANKS, read_seconds=times.read_seconds)


def left_for(table: CostTable, alone: CostTable, n_threads: int, n_left: int) -> CostTable:
    """What passes take with `n_left` of `n_threads` threads: measured for one and for all, between them as the inverse
    of the threads.
    """
    if n_left >= n_threads:
        return table
    if n_left == 1:
        return alone
    share = (1.0 / n_left - 1.0 / n_threads) / (1.0 - 1.0 / n_threads)
    rows = zip(table.seconds, alone.seconds, strict=True)
    seconds = tuple(tuple(all_ + share * (one - all_) for all_, one in zip(*row, strict=True)) for row in rows)
    return replace(table, seconds=seconds)
