from __future__ import annotations

from edgespec.spec.rests import MOST_RESTS, Rests


def added(*passes: float, rests: Rests | None = None) -> Rests:
    rests = rests or Rests()
    for seconds in passes:
        rests.add((1,), 1, 40 + rests.n_rounds, 1, seconds + 3.0, seconds, 1.0)
    return rests


def test_sums_are_those_of_all_rounds() -> None:
    rests = added(5.0, 6.0, 7.0)
    assert (rests.n_rounds, rests.n_emitted, rests.seconds, rests.draft_seconds) == (3, 3, 27.0, 3.0)
    assert (rests.sequences, rests.n_rows, rests.context) == ((1,), 1, 42)


def test_looks_are_medians_of_four_rounds_and_of_what_is_left() -> None:
    rests = added(5.0, 6.0, 90.0, 7.0, 8.0)
    assert list(rests.looks()) == [(6.5, 2.0), (8.0, 2.0)]
    assert list(Rests().looks()) == []


def test_what_drafting_took_is_no_overhead_and_a_clock_that_stands_gives_none() -> None:
    rests = Rests()
    rests.add((1,), 1, 0, 1, 5.0, 5.0, 1.0)
    assert list(rests.looks()) == [(5.0, 0.0)]


def test_rounds_of_another_batch_or_width_do_not_fit() -> None:
    assert Rests().fits((1, 2), 2)
    rests = added(5.0)
    assert rests.fits((1,), 1)
    assert not rests.fits((1, 2), 1)
    assert not rests.fits((1,), 2)


def test_it_is_full_after_so_many_rounds() -> None:
    rests = added(*[5.0] * (MOST_RESTS - 1))
    assert not rests.is_full
    assert added(5.0, rests=rests).is_full
