"""The second model at work in an engine: where its network runs, and a drafter of it for every request.

Its network runs in turn with the target, in the target's own thread, or beside it, in a thread of its own on a core
that the target leaves free. At first where it was predicted to be faster, from what both cost here and how often it is
right; then each answer where answers have cost less. Used by the worker's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from edgespec.backend.remote import RemoteStep
from edgespec.choice import CASCADE
from edgespec.draft.cascade import CascadeDrafter
from edgespec.draft.corpus import Corpus
from edgespec.draft.growth import Clock
from edgespec.draft.late import LateDrafter
from edgespec.draft.model import ModelDrafter
from edgespec.draft.pipeline import Pipeline, PipelineCounts, PipelinedDrafter
from edgespec.draft.suffix import SuffixDrafter
from edgespec.engine.levels import Level, ladder
from edgespec.engine.pair.facts import PairFacts
from edgespec.engine.pair.network import Network
from edgespec.engine.pair.placing import Course
from edgespec.engine.pair.second import Home, Second, patience
from edgespec.engine.pair.standings import BESIDE, IN_TURN
from edgespec.engine.pair.weighing import MAX_DRAFT, USUAL_CONTEXT, left_for, standings
from edgespec.events import Notice
from edgespec.spec.acceptance import Acceptance
from edgespec.spec.cost import CostTable, DraftCosts
from edgespec.spec.latency import Placement
from edgespec.spec.law import Law
from edgespec.spec.measured import MeasuredPolicy
from edgespec.spec.placement import Choice
from edgespec.spec.policy import Policy
from edgespec.spec.ports import Drafter
from edgespec.spec.step import StepModel
from edgespec.spec.tree import DraftMode
from edgespec.tune.pair import PairTimes, StepTimes
from edgespec.tune.tuning import Tuned

# A branch that came true is proposed without waiting once it has this share of what is wanted.
AT_ONCE = 0.5


class Partner:
    """facts: what its steps cost here, and how often it is right. choice: the ways to run it that were weighed, and the
    one taken at first. below: drafts for this one in a cascade, always in turn. has_room: asked before the network is
    opened a second time, to run the other way.

    Raises nothing before a network is made; then what `Second.make` raises, inside `propose`, where it is isolated.
    """

    def __init__(
        self,
        second: Second,
        facts: PairFacts,
        choice: Choice | None,
        clock: Clock,
        below: Partner | None = None,
        has_room: Callable[[], bool] = lambda: True,
    ) -> None:
        self.second = second
        self.facts = facts
        self.choice = choice
        self._clock = clock
        self._has_room = has_room
        self._standings = standings(second.name, choice)
        self._course = Course(beside=False, way=IN_TURN)
        self._ahead = True
        self._network = Network(lambda: self._made(self.times.in_turn))
        self._remote: RemoteStep | None = None  # the last one that was made to work beside the target
        self._pipeline: Pipeline | None = None
        self._below = below
        self._inner: MeasuredPolicy | None = None

    @property
    def name(self) -> str:
        return self.second.name

    @property
    def times(self) -> PairTimes:
        return self.facts.times

    @property
    def is_beside(self) -> bool:
        """Where answers run it now, but for trials of the other way."""
        return self._standings is not None and self._standings.present is BESIDE

    @property
    def may_be_beside(self) -> bool:
        """Whether it is ever tried beside the target."""
        return self._standings is not None

    @property
    def may_pay(self) -> bool:
        """Whether it is worth trying at all, of all ways to run it."""
        return self.choice is not None and self.choice.best.placement is not Placement.PLAIN

    @property
    def counts(self) -> PipelineCounts | None:
        """What came of working beside the target; None while it never did."""
        return self._pipeline.counts if self._pipeline else None

    def work_ahead(self, may: bool) -> None:
        """Whether it may work during the target's next passes, because a core is left to it."""
        self._ahead = may
        if self._pipeline is not None:
            self._pipeline.ahead = may

    def drafter(self, law: Law, mode: DraftMode = DraftMode.COUPLED, exact: bool = False) -> Drafter:
        """For one request. mode: how it chooses its guesses; only coupled ones can be made beside the target. exact:
        its cores are the target's, so nothing can be learnt from where it runs.
        """
        if self._standings is None or mode is not DraftMode.COUPLED:
            self._course = Course(beside=False, way=IN_TURN)
            return self._in_turn(law, mode)
        way = self._possible(self._standings.present if exact else self._standings.choose())
        self._course = Course(way is BESIDE, way, self._standings)
        if way is BESIDE:
            return PipelinedDrafter(self._piped(), law)
        return self._in_turn(law, mode)

    def _in_turn(self, law: Law, mode: DraftMode) -> Drafter:
        self._network.open()

        def find() -> Drafter | None:
            trunk = self._network.trunk()
            return None if trunk is None else ModelDrafter(trunk, law, self._clock, mode)

        return LateDrafter(self.name, find)

    def course(self) -> Course:
        """Of the request whose drafter was made last."""
        return self._course

    def notice(self) -> Notice | None:
        """What a user should know once: that from now on it runs elsewhere."""
        return self._standings.notice() if self._standings else None

    def _possible(self, way: Placement) -> Placement:
        """That way, unless it needs the network once more and there is no memory for it. What hung in a thread of its
        own is not run in the target's.
        """
        if way is BESIDE:
            return way if self._pipeline or not self._network.is_made or self._has_room() else IN_TURN
        if self._pipeline is not None and self._pipeline.counts.n_given_up:
            return BESIDE
        return way if self._network.is_made or not self._pipeline or self._has_room() else BESIDE

    def _piped(self) -> Pipeline:
        if self._pipeline is None:
            self._pipeline = Pipeline(self._made_beside, self.second.name, self._clock, at_once=AT_ONCE)
            self._pipeline.ahead = self._ahead
        return self._pipeline

    def cascade(self, law: Law, corpus: Corpus | None) -> Drafter:
        """For one request: it drafts in turn with the target, and is drafted for by what needs no model, and by a
        third model where there is one.
        """
        self._network.open()
        inner: list[Drafter] = [SuffixDrafter(corpus)]
        if self._below is not None:
            inner.append(self._below.drafter(law))

        def find() -> Drafter | None:
            trunk = self._network.trunk()
            if trunk is None:
                return None
            return CascadeDrafter(trunk, law, tuple(inner), self._inner_policy(), self._clock, CASCADE)

        return LateDrafter(CASCADE, find)

    def _inner_policy(self) -> Policy:
        if self._inner is None:
            rows = self.times.in_turn.row_seconds
            table = CostTable((0,), tuple(n for n, _ in rows), (tuple(seconds for _, seconds in rows),))
            costs = {self._below.name: self._below.costs()} if self._below else None
            self._inner = MeasuredPolicy(table, costs)
        return self._inner

    def prepare(self) -> None:
        """Let a process of its own, if it will work in one and in turn, load the model while nothing is asked."""
        if self.second.home is Home.CHILD and not self.is_beside and (self.may_pay or self.choice is None):
            self._network.open()
        if self._below is not None:
            self._below.prepare()

    def hurry(self, is_urgent: bool) -> None:
        """Whether nobody waits any more for what it drafts in turn. From any thread; waits for nothing."""
        self._network.hurry(is_urgent)
        if self._below is not None:
            self._below.hurry(is_urgent)

    def _made(self, times: StepTimes) -> StepModel:
        step = self.second.make(times.n_threads)
        if isinstance(step, RemoteStep):
            step.patience = patience(times)
        return step

    def _made_beside(self) -> StepModel:
        """In the pipeline's thread."""
        step = self._made(self.times.beside)
        self._remote = step if isinstance(step, RemoteStep) else None
        return step

    def costs(self) -> DraftCosts:
        """What its calls take, before any was made: beside the target, those that were not foreseen."""
        times = self.times.beside if self.is_beside else self.times.in_turn
        step = times.step(USUAL_CONTEXT)
        return DraftCosts([(n, n * step) for n in (1, 4, MAX_DRAFT)], times.read_seconds)

    def all_costs(self) -> dict[str, DraftCosts]:
        """Of every drafter that needs this model, by name."""
        return {self.name: self.costs(), CASCADE: self.costs()}

    def experience(self) -> Acceptance:
        """How often drafters that need this model are right, as it was measured; made anew for every policy."""
        measured = self.facts.acceptance
        return measured.experience((self.name, CASCADE)) if measured else Acceptance()

    def levels(self, tuned: Tuned | None) -> tuple[Level, ...]:
        """The threads that are left to the target while this works beside it, and fewer."""
        n_left = self.times.target_threads
        if tuned is None:
            return ladder(n_left)
        table = left_for(tuned.table, tuned.alone, tuned.settings.n_threads, n_left)
        return ladder(n_left, 0, replace(tuned, table=table))

    def close(self) -> None:
        if self._remote is not None:
            self._remote.close()  # else the pipeline waits for a call under way
        if self._pipeline is not None:
            self._pipeline.close()
        self._network.close()
        if self._below is not None:
            self._below.close()
