"""The choice of where to draft: the published table's best in every cell, and a true reason for each loser."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from edgespec.spec.cost import CostTable
from edgespec.spec.latency import Answer, Beside, Candidate, Draft, OnMiss, Placement
from edgespec.spec.outcomes import constant
from edgespec.spec.placement import Choice, Loser, Lost, candidates, choose
from tests.spec.published import BESIDE, CELLS, MOST, RANKS, Cell

PASSES = (0.0, *(0.025 * (1.0 + 0.1 * rows) for rows in range(16)))
MODEL = Draft(0.005, constant(0.75), RANKS, handover_seconds=0.0003)


def loser(choice: Choice, placement: Placement) -> Loser:
    return next(one for one in choice.losers if one.estimate.placement is placement)


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_the_choice_is_the_best_of_the_published_table(cell: Cell) -> None:
    choice = choose(candidates(cell.passes, draft=cell.branching, beside=BESIDE), max_nodes=MOST)
    published = {
        Placement.PLAIN: 1.0,
        Placement.SERIAL: cell.serial,
        Placement.OVERLAPPED: max(cell.chain_only, cell.recovery),
    }
    # Two digits are printed: two that print the same are a tie.
    assert published[choice.best.placement] == max(published.values())
    assert len(choice.losers) == 2


def test_a_free_drafter_wins_where_it_is_as_good() -> None:
    free = Draft(0.0, constant(0.75))
    choice = choose(candidates(PASSES, free, MODEL, BESIDE))
    assert choice.best.placement is Placement.FREE
    assert [one.code for one in choice.losers] == [Lost.SLOWER] * 3
    weak = choose(candidates(PASSES, Draft(0.0, constant(0.3)), MODEL, BESIDE))
    assert weak.best.placement is Placement.OVERLAPPED


def test_each_loser_says_why_in_one_sentence_with_its_numbers() -> None:
    choice = choose(candidates(PASSES, Draft(0.0, constant(0.05)), MODEL, BESIDE))
    assert choice.best.placement is Placement.OVERLAPPED
    assert loser(choice, Placement.PLAIN).code is Lost.SLOWER
    assert loser(choice, Placement.PLAIN).reason == (
        f"plain gives 40.0 tokens/s, 1.00x plain; overlapped gives {choice.best.tokens_per_second:.1f}"
    )
    free = loser(choice, Placement.FREE)
    assert free.code is Lost.SLOWER_THAN_PLAIN
    assert free.reason == (
        "draft-free with 1 drafted gives 38.2 tokens/s, 0.95x plain: its rounds cost 1.10 plain passes and give 1.05"
    )
    assert loser(choice, Placement.SERIAL).code is Lost.SLOWER
    assert all("\n" not in one.reason for one in choice.losers)


def test_an_overlap_that_slows_more_than_it_hides_loses_to_taking_turns() -> None:
    heavy = Beside(target_slowdown=0.5, draft_slowdown=0.1)
    choice = choose(candidates(PASSES, None, MODEL, heavy))
    assert choice.best.placement is Placement.SERIAL
    seen = loser(choice, Placement.OVERLAPPED)
    assert seen.code is Lost.SLOWS_MORE_THAN_IT_HIDES
    assert seen.estimate.hidden_seconds < 0.5 * PASSES[seen.estimate.n_drafted + 1]
    assert "ms of drafting a round and slows the pass by" in seen.reason


def test_an_overlap_whose_drafts_are_never_ready_says_so() -> None:
    choice = choose(candidates(PASSES, None, replace(MODEL, step_seconds=0.020, survivals=constant(0.99)), BESIDE))
    seen = loser(choice, Placement.OVERLAPPED)
    assert (seen.code, seen.estimate.hit_rate) == (Lost.NEVER_READY, 0.0)
    assert "ms ends before a draft is ready, at 22.0 ms a step" in seen.reason


def test_gains_within_the_margin_are_left() -> None:
    offered = candidates(PASSES, None, replace(MODEL, survivals=constant(0.4)))
    small = choose(offered)
    assert small.best.placement is Placement.SERIAL
    gain = small.best.tokens_per_second / 40.0
    assert 1.0 < gain < 1.1
    choice = choose(offered, margin=1.1)
    assert choice.best.placement is Placement.PLAIN
    assert loser(choice, Placement.SERIAL).code is Lost.MARGIN


def test_a_long_prompt_and_a_short_answer_leave_the_model_out() -> None:
    offered = candidates(PASSES, None, replace(MODEL, read_seconds=0.001), BESIDE)
    assert choose(offered, Answer(n_tokens=1000, n_behind=500)).best.placement is Placement.OVERLAPPED
    assert choose(offered, Answer(n_tokens=20, n_behind=500)).best.placement is Placement.PLAIN


def test_the_target_may_have_more_threads_when_it_runs_alone() -> None:
    """All cores in turn, or one for each: what is compared is what each really takes."""
    alone = tuple(0.6 * seconds for seconds in PASSES)
    turns = Candidate(Placement.SERIAL, alone, replace(MODEL, step_seconds=0.003))
    beside = Candidate(Placement.OVERLAPPED, PASSES, MODEL, BESIDE)
    choice = choose([Candidate(Placement.PLAIN, alone), turns, beside, Candidate(Placement.PLAIN, PASSES)])
    assert choice.best.candidate is turns
    assert len(choice.losers) == 3
    equal = choose([Candidate(Placement.PLAIN, PASSES), Candidate(Placement.SERIAL, PASSES, MODEL), beside])
    assert equal.best.candidate is beside


def test_where_only_one_row_was_measured_decoding_is_plain() -> None:
    choice = choose(candidates((0.0, 0.025, math.inf), None, MODEL, BESIDE), on_miss=OnMiss.BEST_SIZE)
    assert choice.best.placement is Placement.PLAIN
    assert {one.reason for one in choice.losers} == {
        "serial: no pass of two or more rows was measured",
        "overlapped: no pass of two or more rows was measured",
    }


def test_a_measured_table_can_be_handed_in() -> None:
    table = CostTable((0,), (1, 4, 8), ((0.025, 0.030, 0.040),))
    choice = choose(candidates(table.steps(0), None, MODEL, BESIDE))
    assert choice.best.n_drafted in (3, 7)
