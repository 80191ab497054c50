"""Reading that is lent for: refused to whom has not given back, and forgiven when it is long enough ago."""

from __future__ import annotations

import pytest

from edgespec.spec.investments import MOST_TOKENS, Investments, worth

FIRST, SECOND, THIRD = 1, 2, 3


def test_one_that_has_not_given_back_gets_nothing_for_another_answer() -> None:
    book = Investments()
    assert not book.debt("model").blocks(FIRST, 6.0, 1.0)
    book.grant("model", FIRST, 6.0)
    assert book.lent == {FIRST: 6.0}
    assert not book.debt("model").blocks(FIRST, 1.0, 1.0)  # the same answer may go on
    assert book.debt("model").blocks(SECOND, 6.0, 1.0)
    assert not book.debt("other").blocks(SECOND, 6.0, 1.0)
    book.settle(["model", "stranger"], 4.0)
    assert book.debt("model").blocks(SECOND, 6.0, 1.0)
    book.settle(["model"], 2.5)
    assert not book.debt("model").blocks(SECOND, 6.0, 1.0)


def test_it_is_tried_again_when_the_reading_is_a_small_share_of_the_rounds_since_and_ever_more_seldom() -> None:
    book = Investments()
    waits = []
    for sequence in (FIRST, SECOND, THIRD):
        waits.append(next(n for n in range(10_000) if not book.debt("model").blocks(sequence, 6.0, 1.0)))
        book.grant("model", sequence, 6.0)
    assert waits == [0, pytest.approx(1200, abs=2), pytest.approx(2400, abs=2)]


def test_what_was_lent_in_a_round_is_forgotten_with_it_but_not_the_debt() -> None:
    book = Investments()
    book.grant("model", FIRST, 2.0)
    book.grant("other", FIRST, 3.0)
    assert book.lent == {FIRST: 5.0}
    book.begin_round()
    assert book.lent == {}
    assert book.debt("model").owed_seconds == 2.0


def test_a_number_that_comes_back_is_another_answer() -> None:
    book = Investments()
    book.grant("model", FIRST, 2.0)
    book.end(SECOND)
    assert not book.debt("model").blocks(FIRST, 2.0, 1.0)
    book.end(FIRST)
    assert book.debt("model").blocks(FIRST, 2.0, 1.0)


def test_it_counts_on_the_tokens_to_come_but_not_on_too_many() -> None:
    assert worth(10, 1.0, 0.7) == pytest.approx(3.0)
    assert worth(10_000, 1.0, 0.7) == pytest.approx(0.3 * MOST_TOKENS)
    assert worth(10, 1.0, 1.2) < 0.0
