"""Outcomes of a pass: their chances by enumeration, their order, and what a number of steps gets ready."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.spec.outcomes import Outcome, constant, outcomes, prepared, survival_at

RANKS = (0.45, 0.15, 0.08, 0.05)
curves = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=10).map(lambda v: sorted(v, reverse=True))


@pytest.mark.parametrize(("acceptance", "n"), [(0.6, 1), (0.75, 3), (0.85, 4)])
def test_chances_are_those_of_drawing_a_rank_at_each_position(acceptance: float, n: int) -> None:
    chances = [acceptance, *((1 - acceptance) * share for share in RANKS)]
    drawn = [*chances, 1.0 - sum(chances)]
    counted: dict[tuple[int, int], float] = {}
    for ranks in itertools.product(range(1, 7), repeat=n + 1):
        chance = 1.0
        for rank in ranks:
            chance *= drawn[rank - 1]
        accepted = next((i for i, rank in enumerate(ranks[:n]) if rank != 1), n)
        place = (accepted, ranks[accepted])
        counted[place] = counted.get(place, 0.0) + chance
    for one in outcomes(constant(acceptance), RANKS, n, 3):
        assert one.probability == pytest.approx(counted[one.n_accepted, one.rank])


@given(curves, st.lists(st.floats(0.0, 0.25), max_size=4), st.integers(0, 6), st.integers(1, 6))
def test_they_come_most_probable_first_and_make_no_more_than_a_whole(
    survivals: list[float], ranks: list[float], n: int, n_next: int
) -> None:
    found = outcomes(survivals, ranks, n, n_next)
    chances = [one.probability for one in found]
    assert chances == sorted(chances, reverse=True)
    assert sum(chances) <= 1.0 + 1e-9
    assert len({(one.n_accepted, one.rank) for one in found}) == len(found) == 1 + (n + 1) * len(ranks)
    assert {one.n_steps for one in found if one.rank > 1} <= {n_next}
    assert next(one for one in found if one.rank == 1) == Outcome(n, 1, survival_at(survivals, n + 1), n_next + 1)


def test_a_draft_that_is_not_finished_is_not_ready() -> None:
    ordered = outcomes(constant(0.75), RANKS, 2, 2)
    assert [one.n_steps for one in ordered[:3]] == [3, 2, 2]
    for n_steps, n_ready in ((0, 0), (2, 0), (3, 1), (4, 1), (5, 2), (6, 2), (7, 3)):
        assert len(list(prepared(ordered, n_steps))) == n_ready


def test_a_curve_goes_on_beyond_its_end_as_at_its_last_step() -> None:
    assert [survival_at((0.8, 0.4), depth) for depth in (-1, 0, 1, 2, 3, 4)] == pytest.approx(
        [1.0, 1.0, 0.8, 0.4, 0.2, 0.1]
    )
    assert survival_at((0.5,), 3) == pytest.approx(0.125)
    assert survival_at((0.5, 0.0), 9) == survival_at((0.0,), 2) == survival_at((), 1) == 0.0
    assert constant(0.5, 3) == (0.5, 0.25, 0.125)
