"""Two devices on a virtual clock: the published table by running the schedule, and the schedule's own rules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgespec.spec.latency import Beside, Candidate, Placement, estimate
from edgespec.spec.outcomes import Outcome
from edgespec.spec.policy import FixedPolicy
from edgespec.spec.ports import Commit, FloatArray, Plan
from edgespec.spec.simulate import Machine, simulate
from edgespec.spec.simulate_devices import BesideDrafter, Clock, SecondDevice, Speed, TurnDrafter
from edgespec.spec.simulate_text import Steady
from edgespec.spec.tree import EMPTY
from tests.spec.published import BESIDE, CELLS, MOST, Cell

N_ROUNDS = 2500


def speedup(cell: Cell, candidate: Candidate) -> float:
    """Over plain decoding, at the size that the model says is best."""
    best = estimate(candidate, max_nodes=MOST)
    draft = candidate.draft
    assert draft is not None
    machine = Machine(
        cell.passes,
        draft.step_seconds,
        noise=0.0,
        beside=candidate.beside,
        ranks=draft.ranks,
        handover_seconds=draft.handover_seconds,
    )
    n_tokens = round(N_ROUNDS * best.tokens_per_round)
    process = Steady((cell.acceptance,), seed=round(1e4 * cell.acceptance + cell.step_ms))
    done = simulate(FixedPolicy(best.n_drafted), machine, process, n_tokens, seed=5)
    assert done.hit_rate == pytest.approx(best.hit_rate, abs=0.035)
    return cell.passes[1] / done.seconds_per_token


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_running_the_schedule_gives_the_published_table(cell: Cell) -> None:
    """Within 3 %, of which the table's two digits are up to 0.6 and the draw of so many rounds most of the rest."""
    serial = Candidate(Placement.SERIAL, cell.passes, cell.branching)
    chain_only = Candidate(Placement.OVERLAPPED, cell.passes, cell.chain, BESIDE)
    recovery = Candidate(Placement.OVERLAPPED, cell.passes, cell.branching, BESIDE)
    assert speedup(cell, serial) == pytest.approx(cell.serial, rel=0.03)
    assert speedup(cell, chain_only) == pytest.approx(cell.chain_only, rel=0.03)
    assert speedup(cell, recovery) == pytest.approx(cell.recovery, rel=0.03)


# -- the devices by themselves ----------------------------------------------------------------------------------------

ORDERED = [Outcome(2, 1, 0.5, 3), Outcome(0, 2, 0.2, 2), Outcome(1, 2, 0.1, 2)]


@pytest.mark.parametrize(("lasted", "n_finished"), [(0.0, 0), (0.29, 0), (0.3, 1), (0.49, 1), (0.5, 2), (5.0, 3)])
def test_a_second_device_finishes_outcome_after_outcome(lasted: float, n_finished: int) -> None:
    device = SecondDevice(0.1)
    epoch = device.start(ORDERED, 7.0)
    assert device.stop(epoch, 7.0 + lasted) == ORDERED[:n_finished]


def test_results_of_another_epoch_are_dropped() -> None:
    device = SecondDevice(0.1)
    old = device.start(ORDERED, 0.0)
    new = device.start(ORDERED[:1], 1.0)
    assert device.stop(old, 9.0) == []
    assert device.stop(new, 9.0) == ORDERED[:1]
    assert device.stop(new, 9.0) == []


class NoRows:
    def logits(self, row: int) -> FloatArray:
        raise AssertionError(f"row {row} was read")


def commit(drafter: TurnDrafter, n_right: int) -> None:
    tokens = np.arange(drafter.position, drafter.position + n_right + 1, dtype=np.int32)
    drafter.observe(0, Commit(np.arange(n_right, dtype=np.int32), tokens), NoRows(), np.empty(0, np.int32))


def test_a_drafter_in_turn_reads_what_it_lacks_and_its_own_accepted_tokens_never_again() -> None:
    clock = Clock()
    drafter = TurnDrafter(Steady((1.0,)), Speed(0.1, 0.01, 0.001), clock)
    drafter.begin(0, np.arange(101, dtype=np.int32))
    assert drafter.behind(0) == 100
    tree = drafter.propose(0, Plan(4))
    assert tree.tokens.tolist() == [101, 102, 103, 104]
    assert clock.now == pytest.approx(1.0 + 0.4 + 0.001)
    assert len(drafter.propose(0, Plan(0))) == 0
    for n_right, behind in ((4, 1), (0, 2), (0, 3)):  # the last drafted token was never fed; then nobody asks
        commit(drafter, n_right)
        assert drafter.behind(0) == behind
    drafter.propose(0, Plan(3))
    commit(drafter, 1)
    assert drafter.behind(0) == 0
    assert drafter.position == 101 + 5 + 1 + 1 + 2


def test_a_drafter_stops_where_the_plan_says_that_it_is_not_worth_it() -> None:
    clock = Clock()
    drafter = TurnDrafter(Steady((1.0,), claim=0.5), Speed(0.1), clock)
    drafter.begin(0, np.zeros(1, np.int32))
    assert len(drafter.propose(0, Plan(8, min_survival=0.2))) == 2
    assert clock.now == pytest.approx(0.2)
    assert drafter.propose(0, Plan(8, min_survival=0.6)) is EMPTY


def beside(clock: Clock, device: Beside = BESIDE, acceptance: float = 1.0) -> BesideDrafter:
    drafter = BesideDrafter(Steady((acceptance,)), Speed(0.1), clock, device, (), seed=0)
    drafter.begin(0, np.zeros(1, np.int32))
    return drafter


@pytest.mark.parametrize(("passed", "waited"), [(0.6, 0.0), (0.5, 0.4)])
def test_what_was_ready_is_there_at_once_and_what_was_not_is_drafted_then(passed: float, waited: float) -> None:
    """Four tokens and the one before them: five steps, each a tenth slower beside the pass."""
    clock = Clock()
    drafter = beside(clock)
    tree = drafter.propose(0, Plan(4))
    drafter.anticipate(0, tree)
    assert drafter.is_busy
    clock.now += passed
    commit(drafter, 4)
    assert not drafter.is_busy
    before = clock.now
    assert len(drafter.propose(0, Plan(4))) == 4
    assert clock.now - before == pytest.approx(waited)


def test_an_outcome_that_was_not_foreseen_is_a_miss() -> None:
    clock = Clock()
    drafter = beside(clock, acceptance=0.0)
    drafter.anticipate(0, drafter.propose(0, Plan(4)))
    clock.now += 100.0
    commit(drafter, 1)
    before = clock.now
    drafter.propose(0, Plan(4))
    assert clock.now - before == pytest.approx(0.4)
    assert (drafter.n_rounds, drafter.n_hits) == (2, 0)


def test_work_that_is_not_cut_is_waited_for() -> None:
    clock = Clock()
    drafter = beside(clock, replace(BESIDE, uncut_seconds=5.0))
    drafter.anticipate(0, drafter.propose(0, Plan(4)))
    started = clock.now
    clock.now += 1.0
    commit(drafter, 4)
    drafter.propose(0, Plan(4))
    assert clock.now == pytest.approx(started + 5.0)


def test_whom_nobody_asks_does_nothing() -> None:
    drafter = beside(Clock())
    drafter.anticipate(0, drafter.propose(0, Plan(0)))
    assert not drafter.is_busy
    assert drafter.n_rounds == 0
