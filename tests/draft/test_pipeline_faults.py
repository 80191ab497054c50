"""A draft network that fails in every way: the answer goes on, no token changed, told once, and it is tried again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import psutil
import pytest

from edgespec.backend.remote import RemoteStep
from edgespec.draft import keeper
from edgespec.draft.guard import RAISED, GuardedDrafter
from edgespec.draft.messages import Drafted
from edgespec.draft.pipeline import Pipeline, PipelinedDrafter
from edgespec.errors import EngineFailure
from edgespec.events import Notice
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.policy import FixedPolicy
from edgespec.spec.ports import Plan
from edgespec.spec.sequence import SequenceState
from edgespec.spec.step import Ranked, StepModel
from edgespec.spec.tree import EMPTY
from tests.draft.fake import NoRows, commit_of, prompt_of
from tests.draft.held_step import PATIENCE_SECONDS, After, Before, HeldStep, as_it_is, at_once, until
from tests.draft.near_draft import MODEL, N_VOCAB, good
from tests.draft.test_pipeline import (
    GREEDY,
    Clock,
    answers,
    draft_behind,
    observe,
    output,
    settled,
    toy,
)
from tests.spec.plain_decoding import Asked, plain_fast

SAMPLING = SamplingSettings(temperature=0.7, seed=8)
ASKED = Asked((1, 2, 3), SAMPLING, 90)
PLAIN = plain_fast(MODEL, ASKED).output


@dataclass
class Kitchen:
    """Opens networks, the n-th with the n-th fault, and keeps what was told."""

    faults: list[tuple[Before, After]]
    clock: Clock = field(default_factory=Clock)
    steps: list[HeldStep] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    def open(self) -> StepModel:
        before, after = self.faults[len(self.steps)] if len(self.steps) < len(self.faults) else (at_once, as_it_is)
        self.steps.append(HeldStep(good(), before, after))
        return self.steps[-1]

    def pipeline(self, hang_seconds: float = 5.0) -> Pipeline:
        return Pipeline(self.open, clock=self.clock, hang_seconds=hang_seconds)

    def answer(self, pipeline: Pipeline, meanwhile: Callable[[], None] | None = None) -> SequenceState:
        drafter = PipelinedDrafter(pipeline, Law(SAMPLING))
        guarded = GuardedDrafter(drafter, N_VOCAB, self.clock, self.notices.append)
        (end,) = answers(MODEL, [ASKED], [guarded], 4, meanwhile or (lambda: a_few_steps(pipeline)))
        assert output(end) == PLAIN
        return end


def a_few_steps(pipeline: Pipeline, stops: Callable[[], bool] = lambda: False) -> None:
    """As many as a pass of the target may well take."""
    end = pipeline.counts.n_steps + 8
    until(lambda: pipeline.is_quiet or pipeline.counts.n_steps >= end or stops())


def on(call: int, spoil: Callable[[Ranked], Ranked]) -> After:
    """Spoils the result of one call, or the next one that ranks."""
    left = [call]

    def after(n_call: int, ranked: Ranked) -> Ranked:
        if left and n_call >= left[0]:
            left.clear()
            return spoil(ranked)
        return ranked

    return after


def with_nan(ranked: Ranked) -> Ranked:
    logits = ranked.logits.copy()
    logits[-1, 1] = np.nan
    return Ranked(ranked.ids, logits, ranked.log_sums)


def with_unknown_ids(ranked: Ranked) -> Ranked:
    return Ranked(ranked.ids + N_VOCAB, ranked.logits, ranked.log_sums)


def with_negative_ids(ranked: Ranked) -> Ranked:
    return Ranked(ranked.ids - 3, ranked.logits, ranked.log_sums)


def with_too_few(ranked: Ranked) -> Ranked:
    return Ranked(ranked.ids[:, :2], ranked.logits[:, :2], ranked.log_sums)


def without_rows(ranked: Ranked) -> Ranked:
    return Ranked(ranked.ids[:0], ranked.logits[:0], ranked.log_sums[:0])


def raising(ranked: Ranked) -> Ranked:
    raise RuntimeError(f"no more room for {len(ranked.ids)} rows")


def as_nothing(_: Ranked) -> Ranked:
    return None  # type: ignore[return-value]


SPOILS = [with_nan, with_unknown_ids, with_negative_ids, with_too_few, without_rows, raising, as_nothing]


@pytest.mark.parametrize("call", [0, 12])
@pytest.mark.parametrize("spoil", SPOILS, ids=[spoil.__name__ for spoil in SPOILS])
def test_nonsense_and_errors_cost_a_few_rounds(spoil: Callable[[Ranked], Ranked], call: int) -> None:
    kitchen = Kitchen([(at_once, on(call, spoil))])
    with closing(kitchen.pipeline()) as pipeline:
        end = kitchen.answer(pipeline)
        assert pipeline.counts.n_given_up == 0
    assert [notice.code for notice in kitchen.notices] == [RAISED]
    assert len(kitchen.steps) == 1
    assert end.counts.n_accepted > 30  # it was tried again


def test_a_network_that_always_fails_is_told_once_and_hardly_called() -> None:
    n_failed = [0]

    def after(_: int, ranked: Ranked) -> Ranked:
        n_failed[0] += 1
        return raising(ranked)

    kitchen = Kitchen([(at_once, after)])
    with closing(kitchen.pipeline()) as pipeline:
        assert kitchen.answer(pipeline).counts.n_accepted == 0
    assert [notice.code for notice in kitchen.notices] == [RAISED]
    assert "no more room for 3 rows" in kitchen.notices[0].message
    assert n_failed[0] == 4  # 90 rounds, sit-outs of 8, 16 and 32


class Hang:
    """The call at which time flies and nothing comes back, until the test is over."""

    def __init__(self, clock: Clock, call: int, seconds: float = 100.0) -> None:
        self.over = threading.Event()
        self.has_begun = False
        self._clock = clock
        self._call = call
        self._seconds = seconds

    def __call__(self, n_call: int) -> None:
        if n_call == self._call:
            self._clock.now += self._seconds
            self.has_begun = True
            assert self.over.wait(PATIENCE_SECONDS)


@pytest.mark.parametrize("call", [0, 1, 9, 30])
def test_a_network_that_hangs_is_given_up_and_another_one_opened_later(call: int) -> None:
    kitchen = Kitchen([])
    hang = Hang(kitchen.clock, call)
    kitchen.faults.append((hang, as_it_is))
    with closing(kitchen.pipeline()) as pipeline:
        kitchen.answer(pipeline, lambda: a_few_steps(pipeline, lambda: hang.has_begun))
        assert [notice.code for notice in kitchen.notices] == [RAISED]
        assert "it has given no answer for 5 s" in kitchen.notices[0].message
        assert (pipeline.counts.n_given_up, kitchen.steps[0].n_calls) == (1, call + 1)
        # Meanwhile nothing is started, nor anything told.
        assert kitchen.answer(pipeline, lambda: None).counts.n_accepted == 0
        assert (len(kitchen.steps), len(kitchen.notices)) == (1, 1)
        kitchen.clock.now += keeper.FIRST_PAUSE_SECONDS
        assert kitchen.answer(pipeline).counts.n_accepted > 30
        assert (len(kitchen.steps), len(kitchen.notices)) == (2, 1)
        # The call returns after all: its worker frees the network and ends, and nothing of it is used.
        assert kitchen.steps[0].n_closed == 0
        hang.over.set()
        until(lambda: kitchen.steps[0].n_closed == 1)
        assert kitchen.steps[0].n_calls == call + 1
    assert kitchen.steps[1].n_closed == 1


def test_a_request_whose_worker_is_gone_does_not_disturb_the_next_one() -> None:
    """It still runs when another request begins with a new worker, which knows nothing of it."""
    kitchen = Kitchen([])
    hang = Hang(kitchen.clock, 0)
    kitchen.faults.append((hang, as_it_is))
    with closing(kitchen.pipeline()) as pipeline:
        drafter = PipelinedDrafter(pipeline, Law(SAMPLING))
        drafter.begin(7, prompt_of([1, 2]))
        until(lambda: hang.has_begun)
        with pytest.raises(EngineFailure, match="it has given no answer for 5 s; the answer goes on without it"):
            drafter.propose(7, Plan(3))
        assert drafter.propose(7, Plan(3)) is EMPTY
        kitchen.clock.now += keeper.FIRST_PAUSE_SECONDS
        drafter.begin(8, prompt_of([1, 2]))
        settled(pipeline)
        for _ in range(3):
            assert drafter.propose(7, Plan(3)) is EMPTY
            drafter.anticipate(7, EMPTY)
            drafter.observe(7, commit_of([4]), NoRows(), np.empty(0, np.int32))
            assert len(drafter.propose(8, Plan(3))) == 3
        drafter.end(7)
        assert len(drafter.propose(8, Plan(3))) == 3
        assert pipeline.counts.n_given_up == 1
        hang.over.set()


def test_a_late_draft_costs_its_proposal_and_no_fault() -> None:
    """The deadline passes within a call; what it brings is used if it still is of the present text, else dropped."""
    kitchen = Kitchen([], Ticking())
    hang = Hang(kitchen.clock, 12, seconds=0.0)
    kitchen.faults.append((hang, as_it_is))
    n_plain = [0]
    with closing(kitchen.pipeline(hang_seconds=1e9)) as pipeline:

        def meanwhile() -> None:
            if hang.has_begun:
                n_plain[0] += not hang.over.is_set()
                hang.over.set()
            a_few_steps(pipeline, lambda: hang.has_begun)

        drafter = PipelinedDrafter(pipeline, Law(SAMPLING))
        guarded = GuardedDrafter(drafter, N_VOCAB, kitchen.clock, kitchen.notices.append)
        (end,) = answers(MODEL, [ASKED], [guarded], 4, meanwhile, _Limited(4))
    assert n_plain == [1]
    assert output(end) == PLAIN
    assert kitchen.notices == []
    assert end.counts.n_accepted > 30


class Ticking(Clock):
    """Every look at it takes time."""

    def __call__(self) -> float:
        self.now += 0.02
        return self.now


class _Limited(FixedPolicy):
    def plan(self, *args: Any, **kwargs: Any) -> Plan:
        plan = super().plan(*args, **kwargs)
        return Plan(plan.max_nodes, plan.max_leaves, deadline_seconds=1.0)


def test_a_draft_of_another_epoch_is_dropped() -> None:
    """Planted: a wrong branch for just the outcome that comes true, reported for the pass before and the one after."""
    step = HeldStep(toy())
    with closing(Pipeline(lambda: step)) as pipeline:
        drafter = PipelinedDrafter(pipeline, GREEDY)
        drafter.begin(0, prompt_of([1, 2, 3]))
        settled(pipeline)
        tree = drafter.propose(0, Plan(2))
        drafter.anticipate(0, tree)
        settled(pipeline)
        worker = pipeline.worker
        assert worker is not None
        for epoch in (-1, 0, 1, 3, 99):
            worker.reports.put(Drafted(0, epoch, 0, 6, (5, 5), (1.0, 1.0), True))
        observe(drafter, tree, [], 6)
        assert drafter.propose(0, Plan(2)).tokens.tolist() == draft_behind([1, 2, 3, 6], 2)
        worker.reports.put(Drafted(0, 2, 0, 6, (5, 5), (1.0, 1.0), True))  # the present epoch: the plant would work
        assert drafter.propose(0, Plan(2)).tokens.tolist() == [5, 5]


@pytest.fixture
def child() -> Iterator[RemoteStep]:
    with closing(RemoteStep("python:tests.draft.near_draft:good:")) as step:
        yield step


def test_a_draft_whose_process_is_killed_comes_back_in_the_same_answer(child: RemoteStep) -> None:
    notices: list[Notice] = []
    passes = [0]
    with closing(Pipeline(lambda: child)) as pipeline:

        def meanwhile() -> None:
            a_few_steps(pipeline)
            passes[0] += 1
            if passes[0] == 5:
                psutil.Process(child.pid).kill()

        drafter = GuardedDrafter(PipelinedDrafter(pipeline, Law(SAMPLING)), N_VOCAB, lambda: 0.0, notices.append)
        (end,) = answers(MODEL, [ASKED], [drafter], 4, meanwhile)
        assert output(end) == PLAIN
        assert [notice.code for notice in notices] == [RAISED]
        assert "its process died" in notices[0].message
        assert pipeline.counts.n_given_up == 0
