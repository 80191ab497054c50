"""What is booked of rounds that rest, beside `test_measured`, which sees the books through a policy."""

from __future__ import annotations

import pytest

from edgespec.events import Finish, RoundReport
from edgespec.spec.books import Books
from edgespec.spec.cost import CostTable
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.ledger import Entry
from edgespec.spec.sequence import SequenceState

TABLE = CostTable((0,), (1, 2, 4), ((1.0, 1.5, 2.0),))


def state_of(number: int) -> SequenceState:
    return SequenceState.start(number, [1, 2], Law(SamplingSettings()), 100, frozenset())


def report(seconds: float, n_rows: int = 1) -> RoundReport:
    return RoundReport(n_rows, 0, 0, 0, (7,), ("",), 0.0, seconds, seconds)


def test_another_batch_books_what_was_noted_of_the_one_before() -> None:
    journal: list[Entry] = []
    books = Books(TABLE, {}, journal.append)
    one, two = state_of(1), state_of(2)
    assert not books.rest([one], report(1.0), 1, 0.0)
    assert not books.rest([one], report(1.0), 1, 0.0)
    assert not books.rest([one, two], report(1.5, n_rows=2), 2, 0.0)
    assert journal == [Entry(2.0, 0.0, 2, 1.0, n_rounds=2)]
    books.settle_rests()
    assert journal[1:] == [Entry(1.5, 0.0, 2, 1.0, n_rounds=1)]
    assert books.t1_seconds == pytest.approx(0.75), "the plain pass of two sequences, for each"


def test_every_answer_is_charged_its_share_and_forgotten_when_it_is_over() -> None:
    books = Books(TABLE, {}, None)
    one, two = state_of(1), state_of(2)
    before = books.accounts.of(1).headroom(1.0)
    books.rest([one, two], report(100.0, n_rows=2), 2, 0.0)
    books.settle_rests([one, two])
    assert books.accounts.of(1).headroom(1.0) == books.accounts.of(2).headroom(1.0) > before
    one.finish = Finish.STOP
    assert books.rest([one, two], report(1.5, n_rows=2), 2, 0.0), "an end is booked at once"
    books.settle_rests([one, two])
    assert books.accounts.of(1).headroom(1.0) == before
    assert books.accounts.of(2).headroom(1.0) > before


def test_booking_nothing_changes_nothing() -> None:
    journal: list[Entry] = []
    books = Books(TABLE, {}, journal.append)
    books.settle_rests()
    assert not journal
    assert books.t1_seconds == 1.0
