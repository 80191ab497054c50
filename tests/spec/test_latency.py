"""The latency model: a published table cell by cell, and what must hold for any numbers."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.spec.latency import Answer, Beside, Candidate, Draft, OnMiss, Placement, estimate, hit_chance
from edgespec.spec.outcomes import constant
from tests.spec.published import BESIDE, CELLS, MOST, RANKS, Cell

PASSES = (0.0, *(0.025 * (1.0 + 0.1 * rows) for rows in range(16)))
MODEL = Draft(0.003, constant(0.75), RANKS, handover_seconds=0.0003)


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_every_cell_of_the_published_table(cell: Cell) -> None:
    """Within the rounding of the table's own two digits, and so far inside 3 %."""
    free = Draft(0.0, constant(cell.acceptance))
    for candidate, published in (
        (Candidate(Placement.SERIAL, cell.passes, cell.chain), cell.serial),
        (Candidate(Placement.OVERLAPPED, cell.passes, cell.chain, BESIDE), cell.chain_only),
        (Candidate(Placement.OVERLAPPED, cell.passes, cell.branching, BESIDE), cell.recovery),
        (Candidate(Placement.FREE, cell.passes, free), cell.bound),
    ):
        speed = estimate(candidate, max_nodes=MOST).tokens_per_second * cell.passes[1]
        assert speed == pytest.approx(published, abs=0.006)


@given(st.floats(0.1, 0.95), st.floats(0.0005, 0.02), st.integers(1, 12))
def test_the_best_size_is_the_best_of_all_tried_one_by_one(acceptance: float, step: float, most: int) -> None:
    draft = replace(MODEL, step_seconds=step, survivals=constant(acceptance))
    seen = estimate(Candidate(Placement.SERIAL, PASSES, draft), max_nodes=most)
    rates = [(1.0 + sum(constant(acceptance, n))) / (PASSES[n + 1] + n * step + 0.0003) for n in range(1, most + 1)]
    assert seen.tokens_per_second == pytest.approx(max(rates))
    assert seen.n_drafted == 1 + rates.index(max(rates))


@given(st.floats(0.1, 0.95), st.floats(0.0005, 0.02))
def test_overlap_pays_iff_what_it_hides_exceeds_what_it_slows(acceptance: float, step: float) -> None:
    """h * (n d + o) > a * T(n + 1), at any one size."""
    draft = replace(MODEL, step_seconds=step, survivals=constant(acceptance), call_seconds=0.0005)
    for n in (1, 3, 7):
        passes = tuple(s if rows in (1, n + 1) else math.inf for rows, s in enumerate(PASSES))
        serial = estimate(Candidate(Placement.SERIAL, passes, draft))
        beside = estimate(Candidate(Placement.OVERLAPPED, passes, draft, BESIDE))
        gain = beside.hit_rate * (n * step + 0.0005) - BESIDE.target_slowdown * passes[n + 1]
        if abs(gain) > 1e-9:
            assert (beside.tokens_per_second > serial.tokens_per_second) == (gain > 0.0)
        assert beside.hidden_seconds == pytest.approx(beside.hit_rate * (n * step + 0.0005))


def test_after_a_miss_the_best_size_is_never_worse_than_the_same() -> None:
    gains = []
    for cell in CELLS:
        candidate = Candidate(Placement.OVERLAPPED, cell.passes, cell.branching, BESIDE)
        same, best = (estimate(candidate, max_nodes=MOST, on_miss=one) for one in OnMiss)
        gains.append(best.tokens_per_second / same.tokens_per_second)
        assert same.n_missed == same.n_drafted
    assert min(gains) >= 1.0 - 1e-9
    assert max(gains) > 1.05


def test_sizes_after_a_miss_weigh_in_as_often_as_misses_come() -> None:
    """Against the chain of hits and misses iterated by hand."""
    candidate = Candidate(Placement.OVERLAPPED, PASSES, MODEL, BESIDE)
    seen = estimate(candidate, on_miss=OnMiss.BEST_SIZE)
    n, missed = seen.n_drafted, seen.n_missed
    assert missed != n
    chances = [hit_chance(MODEL, BESIDE, 1.05 * PASSES[size + 1], size, n) for size in (missed, n)]
    hit, tokens, seconds = 0.0, 0.0, 0.0
    for _ in range(400):
        for share, size, drafting in ((hit, n, 0.0), (1.0 - hit, missed, missed * MODEL.step_seconds)):
            tokens += share * (1.0 + sum(constant(0.75, size)))
            seconds += share * (1.05 * PASSES[size + 1] + 0.0003 + drafting)
        hit = hit * chances[1] + (1.0 - hit) * chances[0]
    assert seen.hit_rate == pytest.approx(hit)
    assert seen.tokens_per_second == pytest.approx(tokens / seconds, rel=0.01)


def test_more_rows_a_step_and_more_time_get_more_ready() -> None:
    slow = replace(MODEL, step_seconds=0.006)
    by_rows = [hit_chance(replace(slow, n_rows=rows), BESIDE, 0.030, 3, 3) for rows in (1, 2, 4)]
    by_time = [hit_chance(slow, BESIDE, seconds, 3, 3) for seconds in (0.01, 0.03, 0.1, 1.0)]
    assert by_rows == sorted(by_rows)
    assert by_rows[0] < by_rows[2]
    assert by_time == sorted(by_time)
    assert by_time[0] == 0.0
    everything = 0.75**4 + (1.0 - 0.75**4) * sum(RANKS)
    assert by_time[-1] == pytest.approx(everything)
    assert hit_chance(replace(MODEL, step_seconds=0.0), BESIDE, 0.01, 3, 3) == pytest.approx(everything)


def test_work_that_is_not_cut_is_waited_for() -> None:
    candidate = Candidate(Placement.OVERLAPPED, PASSES, MODEL, BESIDE)
    stubborn = replace(candidate, beside=replace(BESIDE, uncut_seconds=1.0))
    assert estimate(stubborn).round_seconds > 1.0
    patient = replace(candidate, beside=replace(BESIDE, uncut_seconds=0.001))
    assert estimate(patient) == replace(estimate(candidate), candidate=patient)


def test_a_text_to_be_read_first_is_spread_over_the_answer() -> None:
    draft = replace(MODEL, read_seconds=0.0005)
    candidate = Candidate(Placement.SERIAL, PASSES, draft)
    plain, reading = estimate(candidate), estimate(candidate, Answer(n_tokens=100, n_behind=400))
    assert 100 / reading.tokens_per_second == pytest.approx(100 / plain.tokens_per_second + 0.2)
    assert (reading.n_drafted, reading.hit_rate) == (plain.n_drafted, plain.hit_rate)


def test_without_a_pass_of_two_rows_nothing_is_drafted() -> None:
    for passes in ((0.0, 0.025), (0.0, 0.025, math.inf)):
        assert estimate(Candidate(Placement.SERIAL, passes, MODEL)).tokens_per_second == 0.0
    assert estimate(Candidate(Placement.PLAIN, PASSES)).tokens_per_second == pytest.approx(40.0)


@pytest.mark.parametrize(
    ("placement", "passes", "draft", "beside"),
    [
        (Placement.PLAIN, (1.0,), None, None),
        (Placement.PLAIN, (1.0, math.inf), None, None),
        (Placement.PLAIN, PASSES, MODEL, None),
        (Placement.SERIAL, PASSES, None, None),
        (Placement.SERIAL, PASSES, MODEL, Beside()),
        (Placement.OVERLAPPED, PASSES, MODEL, None),
    ],
)
def test_what_does_not_fit_together_is_refused(
    placement: Placement, passes: tuple[float, ...], draft: Draft | None, beside: Beside | None
) -> None:
    with pytest.raises(ValueError, match=r"placement|pass"):
        Candidate(placement, passes, draft, beside)
