"""Texts that only know how well they can be guessed."""

from __future__ import annotations

import pytest

from edgespec.spec.simulate_text import Copies, Steady


def test_a_steady_text_is_guessed_as_often_as_it_says_in_each_period() -> None:
    text = Steady((0.9, 0.2), period=100, seed=1)
    assert [text.acceptance(position) for position in (0, 99, 100, 199, 200)] == [0.9, 0.9, 0.2, 0.2, 0.9]
    for position, acceptance in ((0, 0.9), (100, 0.2)):
        rights = [text.guess(position, 1).n_right for _ in range(4000)]
        assert sum(rights) / 4000 == pytest.approx(acceptance, abs=0.02)
    assert text.guess(0, 3).claims == (0.6, 0.6, 0.6)
    assert all(0 <= text.guess(0, 4).n_right <= 4 for _ in range(50))


def test_copies_are_guessed_to_the_end_of_their_burst_and_claimed_higher_the_longer_they_last() -> None:
    text = Copies(2000, burst=24.0, gap=40.0, seed=3)
    guesses = [text.guess(position, 6) for position in range(2000)]
    silent = sum(1 for one in guesses if one is None)
    assert 0.3 < silent / 2000 < 0.8
    ends = {position + one.n_right for position, one in enumerate(guesses) if one is not None and one.n_right > 6}
    assert len(ends) > 10
    for one in guesses:
        if one is not None:
            assert len(one.claims) == 6
            assert list(one.claims) == sorted(one.claims)
    again = Copies(2000, burst=24.0, gap=40.0, seed=3)
    assert [again.guess(position, 6) for position in range(2000)] == guesses


def test_a_lie_scales_the_claims_only() -> None:
    honest, lying = (Copies(500, lie=lie, seed=2) for lie in (1.0, 0.5))
    for position in range(500):
        told, lied = honest.guess(position, 4), lying.guess(position, 4)
        assert (told is None) == (lied is None)
        if told is not None and lied is not None:
            assert told.n_right == lied.n_right
            assert lied.claims == pytest.approx(tuple(0.5 * claim for claim in told.claims))
