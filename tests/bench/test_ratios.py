from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.bench.ratios import Pair, by_category, figures, overall, pair_up
from tests.bench.made import made


def pair(
    prompt: str,
    plain_seconds: float,
    arm_seconds: float,
    category: str = "c",
    plain_tokens: int = 10,
    arm_tokens: int = 10,
    repeat: int = 0,
) -> Pair:
    plain = made(prompt, category=category, repeat=repeat, n_tokens=plain_tokens, decode_seconds=plain_seconds)
    arm = made(prompt, "auto", category=category, repeat=repeat, n_tokens=arm_tokens, decode_seconds=arm_seconds)
    return Pair(arm, plain)


def test_equal_texts_compare_by_total_time() -> None:
    found = figures([pair("a", 1.0, 0.5), pair("b", 3.0, 1.5, plain_tokens=30, arm_tokens=30)])
    assert found.time_ratio == pytest.approx(0.5)
    assert found.speedup == pytest.approx(2.0)
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == pytest.approx((0.5, 0.5))
    assert (found.n_prompts, found.n_pairs, found.n_tokens) == (2, 2, 40)
    assert found.tokens_per_second == pytest.approx(20.0)


def test_a_text_of_another_length_counts_with_the_plain_length() -> None:
    # 10 plain tokens in 1 s; 40 of the arm in 2 s, so 10 would take 0.5 s. And 30 plain ones in 3 s, 10 in 2 s: 6 s.
    found = figures([pair("a", 1.0, 2.0, arm_tokens=40), pair("b", 3.0, 2.0, plain_tokens=30)])
    assert found.time_ratio == pytest.approx((0.5 + 6.0) / 4.0)
    assert found.quartiles[1] == pytest.approx((2.0 + 0.5) / 2)


def test_the_whole_time_has_the_reading_on_both_sides() -> None:
    """Plain reads for 1 s and decodes for 1 s; the arm decodes in half of it, and of a text twice as long."""
    plain = [made(prompt, decode_seconds=1.0, read_seconds=1.0) for prompt in "ab"]
    arm = [made("a", "auto", decode_seconds=0.5, read_seconds=1.0)]
    arm.append(made("b", "auto", n_tokens=20, decode_seconds=1.0, read_seconds=1.0))
    found = figures([Pair(one, other) for one, other in zip(arm, plain, strict=True)])
    assert found.time_ratio == pytest.approx(0.5)
    assert found.total_time_ratio == pytest.approx(1.5 / 2.0)
    assert found.total_interval is not None
    assert (found.total_interval.low, found.total_interval.high) == pytest.approx((0.75, 0.75))
    alone = figures([Pair(arm[0], plain[0])])
    assert alone.total_time_ratio == pytest.approx(0.75)
    assert alone.total_interval is None


def test_the_interval_of_two_prompts_is_between_them() -> None:
    """A quarter of the resamples has the first prompt twice, a quarter the second: both ends are reached."""
    found = figures([pair("a", 1.0, 0.5), pair("b", 1.0, 1.5)])
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == pytest.approx((0.5, 1.5))


def test_repeats_of_a_prompt_are_no_samples_of_their_own() -> None:
    found = figures([pair("a", 1.0, 0.5, repeat=0), pair("a", 1.0, 1.5, repeat=1)])
    assert found.time_ratio == pytest.approx(1.0)
    assert found.interval is None
    assert found.n_prompts == 1
    both = figures([pair(name, 1.0, s, repeat=i) for name in "ab" for i, s in enumerate((0.5, 1.5))])
    assert both.interval is not None
    assert (both.interval.low, both.interval.high) == pytest.approx((1.0, 1.0))


def test_an_empty_answer_counts_as_one_token() -> None:
    assert figures([pair("a", 0.2, 0.1, plain_tokens=0, arm_tokens=0)]).time_ratio == pytest.approx(0.5)


def test_counts() -> None:
    arm = made("a", "auto", n_tokens=30, passes=10, n_drafted=40, n_accepted=20, digest="e", plain_seconds=4.0)
    again = made("a", "auto", repeat=1, n_tokens=30, passes=20, n_drafted=10, n_accepted=5, plain_seconds=2.0)
    plain = [made("a", n_tokens=30, repeat=repeat, decode_seconds=2.0) for repeat in (0, 1)]
    found = figures([Pair(arm, plain[0]), Pair(again, plain[1])])
    assert found.tokens_per_pass == pytest.approx(2.0)
    assert found.acceptance == pytest.approx(0.5)
    assert found.same_text == pytest.approx(0.5)
    assert (found.first_token_seconds, found.first_token_ratio) == (0.1, 1.0)
    assert found.plain_estimate == pytest.approx(6.0 / 4.0)
    assert figures([Pair(plain[0], plain[0])]).acceptance is None
    assert figures([Pair(plain[0], plain[0])]).plain_estimate is None


def test_overall_is_total_time_and_the_mean_of_categories() -> None:
    found = overall([pair("a", 1.0, 0.5, "x"), pair("b", 3.0, 3.0, "y"), pair("c", 3.0, 3.0, "y")])
    assert found.total.time_ratio == pytest.approx(6.5 / 7.0)
    assert found.total.total_time_ratio == found.total.time_ratio  # nothing was read
    assert found.total.total_interval == found.total.interval
    assert found.mean_speedup == pytest.approx((2.0 + 1.0) / 2)
    assert found.mean_interval is not None
    assert (found.mean_interval.low, found.mean_interval.high) == pytest.approx((1.5, 1.5))
    alone = overall([pair("a", 1.0, 0.5, "x")])
    assert alone.mean_interval is None


def test_only_turns_that_both_answered_are_paired() -> None:
    answers = [made("a"), made("b"), made("b", "auto", decode_seconds=2.0), made("c", "auto"), made("b", repeat=1)]
    assert pair_up(answers, "auto", "off") == [Pair(answers[2], answers[1])]
    assert pair_up(answers, "off", "off") == [Pair(one, one) for one in (answers[0], answers[1], answers[4])]


seconds = st.floats(0.01, 10.0)
lengths = st.integers(1, 50)
pairs = st.lists(
    st.builds(pair, st.sampled_from("abcd"), seconds, seconds, st.sampled_from("xyz"), lengths, lengths), min_size=1
).map(lambda found: [p for i, p in enumerate(found) if p.plain.prompt not in {q.plain.prompt for q in found[:i]}])


@given(pairs)
def test_ratios_lie_between_their_parts(found: list[Pair]) -> None:
    one, whole = figures(found), overall(found)
    ratios = [p.ratio for p in found]
    slack = 1e-9
    assert min(ratios) * (1 - slack) <= one.time_ratio <= max(ratios) * (1 + slack)
    assert (one.interval is None) == all(len(group) < 2 for group in by_category(found).values())
    if one.interval is not None:
        assert min(ratios) * (1 - slack) <= one.interval.low <= one.interval.high <= max(ratios) * (1 + slack)
    parts = [figures(group) for group in by_category(found).values()]
    assert whole.mean_speedup == pytest.approx(sum(part.speedup for part in parts) / len(parts))
    assert whole.total == one


@given(pairs, st.floats(0.1, 10.0))
def test_a_machine_slower_by_a_factor_changes_no_ratio(found: list[Pair], factor: float) -> None:
    slower = [
        pair(
            p.plain.prompt,
            factor * p.plain.decode_seconds,
            factor * p.arm.decode_seconds,
            p.plain.category,
            p.plain.n_tokens,
            p.arm.n_tokens,
        )
        for p in found
    ]
    one, other = figures(found), figures(slower)
    assert other.time_ratio == pytest.approx(one.time_ratio)
    assert other.quartiles == pytest.approx(one.quartiles)
    if one.interval is not None and other.interval is not None:
        assert (other.interval.low, other.interval.high) == pytest.approx((one.interval.low, one.interval.high))


@given(pairs)
def test_figures_can_be_repeated(found: list[Pair]) -> None:
    assert figures(found) == figures(found)
