"""Which way a draft is run, on a clock of plain tokens: answers that cost what a test says they cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.engine.pair.standings import BESIDE, IN_TURN, Standings
from edgespec.spec.latency import Placement

T1 = 0.1
Costs = Callable[[Placement, int], float]


@dataclass(frozen=True, slots=True)
class Told:
    """What became of many answers. spent: plain tokens of time. ways: of each answer. codes: of the notices."""

    spent: float
    n_tokens: int
    ways: tuple[Placement, ...]
    codes: tuple[str, ...]


def tell(standings: Standings, costs: Costs, n_answers: int, length: int = 128, per_round: int = 2) -> Told:
    """costs: plain tokens of time per token, of a way and an answer's number."""
    spent, ways, codes = 0.0, [], []
    for number in range(n_answers):
        way = standings.choose()
        ways.append(way)
        notice = standings.notice()
        codes += [notice.code] if notice else []
        assert standings.notice() is None
        for _ in range(length // per_round):
            cost = costs(way, number) * per_round
            standings.settle(way, cost * T1, per_round, T1)
            spent += cost
    return Told(spent, n_answers * length, tuple(ways), tuple(codes))


def begun(in_turn: float = 0.6, beside: float = 0.5) -> Standings:
    way = IN_TURN if in_turn < beside else BESIDE
    return Standings("draft", {IN_TURN: in_turn, BESIDE: beside}, way)


def steady(in_turn: float, beside: float) -> Costs:
    return lambda way, _number: in_turn if way is IN_TURN else beside


def test_what_is_as_predicted_stays() -> None:
    told = tell(begun(), steady(0.6, 0.5), 200)
    assert told.ways.count(IN_TURN) < 0.05 * len(told.ways)
    assert told.codes == ()


@pytest.mark.parametrize("first", [IN_TURN, BESIDE])
def test_rounds_that_contradict_the_prediction_for_long_move_it_once(first: Placement) -> None:
    """Predicted 0.5 and really 0.9, where the other way takes 0.6 as predicted."""
    beside = first is BESIDE
    standings = begun(0.6 if beside else 0.5, 0.5 if beside else 0.6)
    told = tell(standings, steady(*((0.6, 0.9) if beside else (0.9, 0.6))), 60)
    moved = next(i for i, way in enumerate(told.ways) if way is not first)
    assert 2 <= moved <= 4
    assert told.ways[-1] is not first
    assert told.codes == ("draft-in-turn" if beside else "draft-beside",)
    assert standings.present is not first


def test_a_short_bad_stretch_moves_nothing() -> None:
    told = tell(begun(), lambda way, number: 2.0 if way is BESIDE and number == 0 else 0.5, 40, length=32)
    assert set(told.ways[:8]) == {BESIDE}


def test_it_comes_back_when_the_first_way_is_better_again() -> None:
    """Another program has the draft's core for the first answers; then it is gone."""
    standings = begun(0.6, 0.5)
    told = tell(standings, lambda way, number: (1.2 if number < 10 else 0.4) if way is BESIDE else 0.6, 600)
    assert told.codes == ("draft-in-turn", "draft-beside")
    assert standings.present is BESIDE


def test_the_notice_says_both_costs() -> None:
    standings = begun()
    tell(standings, steady(0.6, 0.9), 2)
    standings.choose()
    notice = standings.notice()
    assert notice is not None
    assert notice.message.startswith("draft no longer drafts beside the model: that takes 0.")
    assert notice.message.endswith("of plain decoding's time, and 0.60 is expected in turn with it")


COSTS = st.floats(0.3, 1.2)
LENGTHS = st.sampled_from([16, 128, 512])


@settings(max_examples=50)
@given(COSTS, COSTS, COSTS, COSTS, LENGTHS)
def test_what_trials_lose_is_bounded(in_turn: float, beside: float, one: float, other: float, length: int) -> None:
    """Against the way that was predicted to be better, taken for ever: what a mistaken prediction of the other one
    costs until it has been told apart, and 1 % and some answers for trials.
    """
    standings = begun(one, other)
    first = standings.present
    told = tell(standings, steady(in_turn, beside), 40_000 // length, length, per_round=8)
    usual, strange = (in_turn, beside) if first is IN_TURN else (beside, in_turn)
    learning = 4 * (512 + length) * max(0.0, strange - usual)
    assert told.spent <= 1.055 * usual * told.n_tokens + learning


@settings(max_examples=50)
@given(COSTS, COSTS, st.floats(0.8, 1.25), st.floats(0.8, 1.25), LENGTHS)
def test_it_ends_up_near_the_better_way(in_turn: float, beside: float, one: float, other: float, length: int) -> None:
    """Where predictions are off by a quarter: within 4 %, which is what is not worth changing for, and a trial."""
    standings = begun(one * in_turn, other * beside)
    tell(standings, steady(in_turn, beside), 60_000 // length, length, per_round=8)
    late = tell(standings, steady(in_turn, beside), 20_000 // length, length, per_round=8)
    trial = (256 + length) * abs(in_turn - beside)
    assert late.spent <= 1.055 * min(in_turn, beside) * late.n_tokens + trial
