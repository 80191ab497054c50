"""An unmeasured width is opened seldom, and after some rounds it is one like the others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgespec.spec.trials import ENOUGH, EVERY, Trials

MEASURED = (1, 2, 4, 8, 16)
ALL = tuple(range(1, 17))


def play(trials: Trials, rows: int, n: int = 1) -> None:
    for _ in range(n):
        trials.observe(rows)


def test_only_measured_widths_are_open_at_first_and_between_trials() -> None:
    trials = Trials(MEASURED)
    play(trials, 8, EVERY - 1)
    assert trials.open == trials.known == MEASURED
    assert not trials.due
    play(trials, 8)
    assert trials.due
    assert trials.open == ALL
    play(trials, 6)
    assert not trials.due
    assert trials.open == MEASURED


def test_a_trial_waits_until_somebody_takes_it_up() -> None:
    trials = Trials(MEASURED)
    play(trials, 8, 5 * EVERY)
    assert trials.due


def test_a_width_that_was_tried_often_enough_is_known() -> None:
    trials = Trials(MEASURED)
    for n in range(ENOUGH):
        assert not trials.knows(6), n
        play(trials, 8, EVERY)
        play(trials, 6)
    assert trials.known == trials.open == (1, 2, 4, 6, 8, 16)


def test_where_every_width_is_known_nothing_is_tried() -> None:
    trials = Trials(ALL)
    play(trials, 8, 10 * EVERY)
    assert not trials.due


@given(st.lists(st.integers(2, 16), max_size=400))
def test_a_policy_that_keeps_to_what_is_open_tries_at_most_one_round_in_so_many(wanted: list[int]) -> None:
    trials, tried, n_rounds = Trials(MEASURED), 0, 0
    counts = dict.fromkeys(ALL, 0)
    for rows in wanted:
        if rows not in trials.open:
            continue
        n_rounds += 1
        tried += not trials.knows(rows)
        counts[rows] += not trials.knows(rows)
        trials.observe(rows)
        assert set(MEASURED) <= set(trials.known) <= set(trials.open)
        # The twin counts from the start.
        assert trials.known == tuple(w for w in ALL if w in MEASURED or counts[w] >= ENOUGH)
    assert tried * EVERY <= n_rounds
    assert max(counts.values()) <= ENOUGH
