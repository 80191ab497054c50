"""The bench over the toy target, which checks every call as the real one does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.backend.toy import ToyModel, ToyTarget
from edgespec.spec.ports import Capabilities
from edgespec.tune.measure import SEQUENCE, Bench, filler
from tests.tune.bench import Ticks

MODEL = ToyModel(n_vocab=6, order=3)
LIMITS = Capabilities(n_ctx=80, n_vocab=6, max_rows=12, max_chunk=8, max_leaves=4, can_rollback=True)


def bench(limits: Capabilities = LIMITS, window: int = 0) -> tuple[Bench, ToyTarget]:
    target = ToyTarget(MODEL, limits, window)
    return Bench(target, Ticks(1.0)), target


def test_filler_visits_the_vocabulary() -> None:
    tokens = filler(1000, 1000)
    assert tokens.dtype == "int32"
    assert sorted(set(tokens.tolist())) == list(range(1000))


def test_reading_goes_chunk_by_chunk() -> None:
    one, target = bench()
    assert [(one.read(20, 512), one.length) for _ in range(4)] == [(1.0, 8), (1.0, 16), (1.0, 20), (0.0, 20)]
    assert target.n_passes == 3
    assert (one.read(23, 2), one.length) == (1.0, 22)


def test_a_longer_text_is_cut() -> None:
    one, target = bench()
    for _ in range(3):
        one.read(20, 8)
    assert (one.read(10, 8), one.length, target.n_passes) == (0.0, 10, 3)


def test_where_a_window_forgot_too_much_all_is_read_anew() -> None:
    one, _ = bench(window=4)
    for _ in range(8):
        one.read(60, 8)
    one.read(10, 8)
    assert one.length == 8


@given(st.lists(st.integers(1, 12), max_size=12))
def test_passes_leave_nothing_behind(widths: list[int]) -> None:
    one, target = bench()
    one.read(8, 8)
    for width in widths:
        assert one.pass_seconds(width) == 1.0
        assert target.length(SEQUENCE) == 8
    assert target.n_passes == 1 + len(widths)


def test_without_rollback_only_plain_passes_are_possible() -> None:
    one, target = bench(replace(LIMITS, can_rollback=False, max_leaves=1))
    assert one.widest == 1
    one.read(8, 8)
    for _ in range(3):
        assert one.pass_seconds(1) == pytest.approx(1.0)
    assert target.length(SEQUENCE) == 11
