"""Ratios, their spread, loops and views."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.peer import Answer
from tools.peer_figures import Figures, Spread, View, decode, is_loop, speed, spread, total, views
from tools.peer_rows import Key, Row


def answer(n_tokens: int, seconds: float, first_token: int = 1) -> Answer:
    return Answer(tuple(range(first_token, first_token + n_tokens)), False, 5, 1, seconds / 2, seconds)


def row(digest: str, peer: str, seconds: float, repeat: int = 0, category: str = "qa", n_prompt: int = 5) -> Row:
    return Row(Key(digest, peer, repeat), f"id {digest}", category, n_prompt, answer(10, seconds), "", 0.0)


def test_a_speed_is_of_all_answers_together() -> None:
    answers = [answer(10, 1.0), answer(30, 9.0)]
    assert speed(answers, total) == 4.0
    assert speed(answers, decode) == 38 / 5.0
    assert speed([], total) is None
    assert speed([Answer((1,), False, 5, 1, 0.0, 1.0)], decode) is None


def test_a_ratio_is_of_speeds_over_all_prompts() -> None:
    pairs = [("a", answer(10, 1.0), answer(10, 3.0)), ("b", answer(10, 3.0), answer(10, 5.0))]
    found = spread(pairs, total)
    assert found is not None
    assert found.ratio == pytest.approx(2.0)
    assert found.low == pytest.approx(5 / 3)
    assert found.high == pytest.approx(3.0)


def test_other_answers_are_compared_per_token() -> None:
    assert spread([("a", answer(10, 1.0), answer(20, 2.0))], total) == Spread(1.0, None, None)


def test_repeats_of_a_prompt_stay_together() -> None:
    pairs = [("a", answer(10, 1.0), answer(10, seconds)) for seconds in (1.0, 2.0, 3.0)]
    assert spread(pairs, total) == Spread(2.0, None, None)


def test_nothing_to_compare() -> None:
    assert spread([], total) is None
    assert spread([("a", Answer((1,), False, 5, 1, 0.0, 1.0), answer(10, 1.0))], decode) is None


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)), min_size=2, max_size=12))
def test_the_interval_holds_the_ratio_and_stays_within_the_prompts(seconds: list[tuple[float, float]]) -> None:
    found = spread([(str(i), answer(10, a), answer(10, b)) for i, (a, b) in enumerate(seconds)], total)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    alone = [b / a for a, b in seconds]
    assert min(alone) * 0.999 <= found.low <= found.high <= max(alone) * 1.001
    assert min(alone) * 0.999 <= found.ratio <= max(alone) * 1.001


def test_the_interval_narrows_with_more_prompts_and_is_the_same_every_time() -> None:
    def width(n: int) -> float:
        pairs = [(str(i), answer(10, 1.0), answer(10, 1.5 + i % 2)) for i in range(n)]
        found = spread(pairs, total)
        assert found == spread(pairs, total)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        return found.high - found.low

    assert width(64) < width(8) < width(4)


@given(st.integers(1, 32), st.lists(st.integers(0, 9), max_size=80))
def test_every_period_up_to_half_the_tail_is_a_loop(period: int, before: list[int]) -> None:
    circle = list(range(100, 100 + period))
    assert is_loop(before + (circle * 64)[:64])


def test_what_is_no_loop() -> None:
    assert not is_loop(list(range(64)))
    assert not is_loop([1] * 63)
    assert not is_loop([1] * 63 + [2])
    assert not is_loop([*range(33), *range(31)])
    assert not is_loop([])
    assert is_loop([*range(32)] * 2)


def test_views_leave_out_what_is_empty_or_everything() -> None:
    rows = [row("a", "x", 1.0), row("b", "x", 1.0)]
    assert views(rows) == [View("all prompts", frozenset("ab"))]


def test_views_by_loops_and_by_length() -> None:
    loop = Row(Key("c", "y", 0), "id c", "qa", 5, Answer((7,) * 64, False, 5, 1, 1.0, 1.0), "", 0.0)
    rows = [row("a", "x", 1.0, n_prompt=900), row("b", "x", 1.0, n_prompt=899), row("c", "x", 1.0), loop]
    assert [(view.name, "".join(sorted(view.digests))) for view in views(rows)] == [
        ("all prompts", "abc"),
        ("prompts without looping answers", "ab"),
        ("prompts of 900 tokens and more", "a"),
        ("prompts under 900 tokens", "bc"),
    ]


def test_figures_compare_only_what_both_answered() -> None:
    rows = [
        row("a", "plain", 2.0),
        row("b", "plain", 2.0, category="rag"),
        row("c", "plain", 2.0),
        row("a", "auto", 1.0),
        row("b", "auto", 2.0, category="rag"),
        row("a", "slow", 4.0),
        Row(Key("b", "slow", 0), "id b", "rag", 5, None, "slow: it hung; wait.", 0.0),
    ]
    figures = Figures(rows, View("all prompts", frozenset("abc")), "plain", "auto")
    slow = figures.of("slow")
    assert (slow.n_answers, slow.n_tokens, slow.total_speed, slow.decode_speed) == (1, 10, 2.5, 4.5)
    assert (slow.total, slow.auto_total) == (Spread(0.5, None, None), Spread(4.0, None, None))
    auto = figures.of("auto")
    assert auto.total is not None
    assert auto.total.ratio == pytest.approx(4 / 3)
    assert auto.by_category == {"qa": 2.0, "rag": 1.0}
    assert auto.category_mean == 1.5
    assert auto.same_answers == 1.0
    assert figures.of("plain").total == Spread(1.0, 1.0, 1.0)


def test_figures_of_a_view_and_of_a_peer_without_answers() -> None:
    rows = [row("a", "plain", 2.0), row("b", "plain", 1.0)]
    figures = Figures(rows, View("one", frozenset("a")), "plain", "auto")
    assert figures.of("plain").total_speed == 5.0
    nothing = figures.of("auto")
    assert (nothing.n_answers, nothing.total, nothing.category_mean, nothing.same_answers) == (0, None, None, None)


def test_other_tokens_are_another_answer() -> None:
    other = Row(Key("a", "auto", 0), "id a", "qa", 5, answer(10, 1.0, first_token=2), "", 0.0)
    figures = Figures([row("a", "plain", 2.0), other], View("all", frozenset("a")), "plain", "auto")
    assert figures.of("auto").same_answers == 0.0
