"""Which kind of drafter a request gets, on step models without a network."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from edgespec.choice import CASCADE
from edgespec.draft.late import LateDrafter
from edgespec.draft.pipeline import PipelinedDrafter
from edgespec.engine.pair.facts import PairFacts
from edgespec.engine.pair.partner import Partner
from edgespec.engine.pair.second import Home, Second, SecondKind
from edgespec.engine.pair.standings import BESIDE, IN_TURN
from edgespec.engine.pair.weighing import weigh
from edgespec.errors import EngineFailure
from edgespec.spec.cost import CostTable
from edgespec.spec.latency import Placement
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.outcomes import constant
from edgespec.spec.placement import Choice
from edgespec.spec.ports import Drafter, Plan
from edgespec.spec.step import StepModel
from edgespec.spec.tree import DraftMode
from edgespec.tune.agreement import RANKS, ChainStep, PairAcceptance
from edgespec.tune.pair import PairTimes, StepTimes
from tests.draft.toy_step import ToyStep, hashed, toy_limits

T1 = 0.1
FLAT = CostTable((0,), (1, 2, 4, 8, 16), ((T1, T1, T1, T1, T1),))
LAW = Law(SamplingSettings())
SEEN = PairAcceptance(90, 0.9, constant(0.9, 8), RANKS, tuple(ChainStep(0, 0.9, True) for _ in range(9)))


@dataclass
class Opened:
    """n_threads: of every network that was opened."""

    n_threads: list[int] = field(default_factory=list)
    fault: Exception | None = None

    def make(self, n_threads: int) -> StepModel:
        self.n_threads.append(n_threads)
        if self.fault is not None:
            raise self.fault
        return ToyStep(hashed(6, 1), toy_limits(6))


def choice_of(placement: Placement) -> tuple[PairTimes, Choice]:
    seconds = {IN_TURN: 0.01, BESIDE: 0.04, Placement.PLAIN: 9.0}[placement]
    in_turn, beside = StepTimes(2, ((64, seconds),), 0.001), StepTimes(1, ((64, seconds),), 0.001)
    times = PairTimes(in_turn, beside, 1, 0.6 if placement is IN_TURN else 0.0, 0.0)
    return times, weigh(FLAT, FLAT, times, constant(0.8))


@contextmanager
def partner_at(placement: Placement, opened: Opened, has_room: Callable[[], bool] = lambda: True) -> Iterator[Partner]:
    times, choice = choice_of(placement)
    assert choice.best.placement is placement
    second = Second("draft", Path("draft.gguf"), SecondKind.GGUF, "print", 64, opened.make, Home.HERE)
    partner = Partner(second, PairFacts(times, SEEN), choice, time.perf_counter, has_room=has_room)
    try:
        yield partner
    finally:
        partner.close()


def kind(drafter: Drafter) -> type[Drafter]:
    return type(drafter)


def contradict(partner: Partner, cost: float, n_tokens: int = 400) -> None:
    """Answers whose tokens take so many plain ones."""
    partner.drafter(LAW)
    course = partner.course()
    for _ in range(n_tokens // 4):
        course.settle(4 * cost * T1, 4, T1)


@pytest.mark.parametrize(("placement", "expected"), [(BESIDE, PipelinedDrafter), (IN_TURN, LateDrafter)])
def test_it_begins_where_it_was_predicted_to_be_faster(placement: Placement, expected: type[Drafter]) -> None:
    with partner_at(placement, Opened()) as partner:
        assert partner.is_beside is (placement is BESIDE)
        assert partner.may_be_beside
        assert kind(partner.drafter(LAW)) is expected
        course = partner.course()
        assert (course.way, course.beside) == (placement, placement is BESIDE)


def test_one_that_does_not_pay_works_in_turn_when_it_is_asked_for_all_the_same() -> None:
    with partner_at(Placement.PLAIN, Opened()) as partner:
        assert not partner.may_pay
        assert not partner.may_be_beside
        assert kind(partner.drafter(LAW)) is LateDrafter
        assert partner.course().way is IN_TURN


@pytest.mark.parametrize(("placement", "code"), [(BESIDE, "draft-in-turn"), (IN_TURN, "draft-beside")])
def test_rounds_that_contradict_the_prediction_give_the_other_kind_and_one_notice(
    placement: Placement, code: str
) -> None:
    with partner_at(placement, Opened()) as partner:
        before = kind(partner.drafter(LAW))
        contradict(partner, 1.1)
        after = kind(partner.drafter(LAW))
        assert {before, after} == {PipelinedDrafter, LateDrafter}
        assert partner.is_beside is (placement is IN_TURN)
        notice = partner.notice()
        assert notice is not None
        assert notice.code == code
        assert partner.notice() is None
        contradict(partner, 1.5)
        assert kind(partner.drafter(LAW)) is before


def test_it_proposes_the_same_in_both_places() -> None:
    prompt, found = np.array([1, 2, 3], np.int32), []
    for placement in (IN_TURN, BESIDE):
        with partner_at(placement, Opened()) as partner:
            drafter = partner.drafter(LAW)
            drafter.begin(0, prompt)
            end = time.monotonic() + 60.0
            tree = drafter.propose(0, Plan(3, deadline_seconds=30.0))
            # Beside, it may not have read the prompt yet, and it gives what it has once that is half of what is wanted.
            while len(tree) < 3 and time.monotonic() < end:
                tree = drafter.propose(0, Plan(3, deadline_seconds=30.0))
            found.append(tree.tokens.tolist())
            drafter.end(0)
    assert found[0] == found[1]
    assert len(found[0]) == 3


def test_without_memory_for_a_second_network_it_stays() -> None:
    opened = Opened()
    with partner_at(IN_TURN, opened, lambda: False) as partner:
        contradict(partner, 1.5)
        assert kind(partner.drafter(LAW)) is LateDrafter
        assert partner.course().way is IN_TURN
        assert opened.n_threads == [2]
    with partner_at(BESIDE, Opened(), lambda: False) as partner:
        contradict(partner, 1.5)
        assert kind(partner.drafter(LAW)) is PipelinedDrafter
        assert partner.course().way is BESIDE


def test_what_was_given_up_beside_the_target_is_not_run_in_its_thread() -> None:
    opened = Opened(fault=EngineFailure("the draft", "it cannot be opened", "nothing"))
    with partner_at(BESIDE, opened) as partner:
        drafter = partner.drafter(LAW)
        end = time.monotonic() + 60.0
        while not (partner.counts and partner.counts.n_given_up):
            assert time.monotonic() < end
            drafter.begin(1, np.array([1, 2], np.int32))
            drafter.end(1)
        contradict(partner, 1.5)
        assert kind(partner.drafter(LAW)) is PipelinedDrafter
        assert set(opened.n_threads) == {1}


def test_exact_answers_are_no_trials_and_drawn_guesses_are_made_in_turn() -> None:
    with partner_at(BESIDE, Opened()) as partner:
        assert kind(partner.drafter(LAW, exact=True)) is PipelinedDrafter
        assert kind(partner.drafter(LAW, DraftMode.SAMPLED)) is LateDrafter
        assert (partner.course().way, partner.course().standings) == (IN_TURN, None)


def test_a_pipeline_that_is_made_late_knows_whether_it_may_work_ahead() -> None:
    with partner_at(IN_TURN, Opened()) as partner:
        assert partner.counts is None
        partner.work_ahead(False)
        contradict(partner, 1.5)
        drafter = partner.drafter(LAW)
        assert isinstance(drafter, PipelinedDrafter)
        assert partner.counts is not None


def test_its_experience_is_new_for_every_policy() -> None:
    with partner_at(IN_TURN, Opened()) as partner:
        one, other = partner.experience(), partner.experience()
        assert set(one.profiles) == {"draft", CASCADE}
        assert one.profile("draft").acceptance > 0.7
        one.profile("draft").observe(0, 0.9, right=False)
        assert one.profile("draft").acceptance != other.profile("draft").acceptance
