from __future__ import annotations

import pytest

from edgespec.spec.upkeep import Record, Upkeep


def test_what_rounds_give_replaces_what_was_believed() -> None:
    record = Record()
    believed = record.expected
    assert 1.0 < believed < 2.0
    for n_tokens, bound in ((1, 1.3), (3, 2.0)):
        for _ in range(60):
            record.observe(n_tokens)
        assert (record.expected < bound) == (n_tokens == 1)


def test_rests_grow_until_a_round_is_kept_again() -> None:
    record, lengths = Record(), []
    for _ in range(8):
        record.refuse()
        lengths.append(sum(1 for _ in iter(record.rests, False)))
    assert lengths == [8, 16, 32, 64, 128, 256, 256, 256]
    record.observe(2)
    record.refuse()
    assert sum(1 for _ in iter(record.rests, False)) == 8


def test_a_rest_makes_it_forget_a_part() -> None:
    record, prior = Record(), Record().expected
    for _ in range(100):
        record.observe(1)
    known = record.expected
    record.refuse()
    while record.rests():
        assert record.expected <= prior
    assert known < record.expected < prior


def test_each_drafter_has_its_own_record_and_is_paid_for_what_was_kept() -> None:
    upkeep = Upkeep()
    prior = upkeep.expected(["a"])
    upkeep.settle(9)
    assert upkeep.expected(["a"]) == prior
    upkeep.keep({"a"})
    for _ in range(20):
        upkeep.settle(3)
    assert upkeep.expected(["b"]) == prior < upkeep.expected(["a"]) == upkeep.expected(["a", "b"])
    upkeep.refuse(["b"])
    assert upkeep.knows("b")
    assert upkeep.rests("b")
    assert not upkeep.rests("a")
    assert not upkeep.rests("unknown")
    assert not upkeep.knows("unknown")


def test_nobody_pins_for_nothing() -> None:
    with pytest.raises(ValueError, match="empty"):
        Upkeep().expected([])


def test_what_others_give_is_not_its_own() -> None:
    upkeep = Upkeep()
    upkeep.keep(["a"], others=2.0)
    for _ in range(99):
        upkeep.settle(3)
    assert upkeep.expected(["a"]) < 1.3
    known = upkeep.expected(["a"])
    upkeep.drop()
    upkeep.settle(9)
    assert upkeep.expected(["a"]) == known
