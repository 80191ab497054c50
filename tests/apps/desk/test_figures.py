from __future__ import annotations

from dataclasses import replace

import pytest

from apps.desk.figures import NOT_YET, Bar, bars, figures
from apps.desk.turn import Turn
from tests.apps.desk.made import answered, drafted
from tests.server.toy_completion import TIMINGS, completion_of


def shown(turn: Turn | None) -> dict[str, str]:
    return {one.name: one.value for one in figures(turn)}


def test_nothing_is_claimed_before_it_is_known() -> None:
    assert set(shown(None).values()) == {NOT_YET}
    assert shown(Turn("?")) == shown(None)


def test_of_a_whole_answer() -> None:
    assert shown(answered()) == {
        "Tokens per pass": "2.00",
        "Tokens per second": "4.0",
        "Against plain": "2.50x",
        "Accepted": "3 of 4",
        "Tokens, passes": "6, 3",
        "Drafters": "lookup 2, suffix 1",
        "First token": "0.05 s",
        "Seed": "9",
    }


def test_while_it_is_made_speed_is_that_of_its_rounds() -> None:
    turn = answered()
    turn.completion = None
    assert shown(turn)["Tokens per second"] == "100.0"
    assert shown(turn)["Against plain"] == NOT_YET


def test_a_speed_up_is_never_claimed_without_a_measurement() -> None:
    turn = answered()
    turn.end(completion_of("a", replace(TIMINGS, plain_seconds=0.0)), ())
    assert shown(turn)["Against plain"] == "not measured"


def test_bars_are_the_first_depths() -> None:
    assert bars(answered().tallied()) == (Bar(1, 1.0, 2), Bar(2, 1.0, 1), Bar(3, 0.0, 1))
    assert Bar(2, 0.5, 4).spoken() == "2 ahead: 50% of 4"
    deep = Turn("?")
    deep.add_round(drafted(tuple(range(-1, 14)), tuple(range(15))))
    assert [bar.depth for bar in bars(deep.tallied())] == list(range(1, 9))
    assert bars(Turn("?").tallied()) == ()


@pytest.mark.parametrize("name", [one.name for one in figures(None)])
def test_names_never_change(name: str) -> None:
    assert name in shown(answered())
