from __future__ import annotations

import pytest

from edgespec.spec.accounts import Accounts


def test_each_answer_has_its_own_until_it_is_over() -> None:
    accounts = Accounts()
    accounts.of(1).settle(2.0, 1, 1.0, drafted=True)
    assert accounts.headroom([1], 1.0) == pytest.approx(1.2 + 0.02 - 1.0)
    assert accounts.headroom([1, 2], 1.0) == pytest.approx(1.2 + 0.02 - 1.0 + 1.2)
    accounts.close(1)
    accounts.close(1)
    assert accounts.headroom([1], 1.0) == pytest.approx(1.2)


def test_what_broken_off_answers_leave_behind_does_not_pile_up() -> None:
    accounts = Accounts()
    first = accounts.of(0)
    for sequence in range(1, 64):
        accounts.of(sequence)
    assert accounts.of(0) is first
    accounts.of(64)
    assert accounts.of(0) is not first
