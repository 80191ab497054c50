from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgespec.backend.settings import LlamaSettings
from edgespec.tune import plan
from edgespec.tune.sheet import Sheet

SETTINGS = LlamaSettings(n_threads=2)


def test_contexts_by_speed_and_room() -> None:
    assert plan.plan_contexts(4096, 0.001, 60.0) == (128, 1024)
    assert plan.plan_contexts(1024, 0.001, 60.0) == (128, 512)
    assert plan.plan_contexts(4096, 0.05, 60.0) == (16, 64)  # a 7B that reads 20 tokens a second
    assert plan.plan_contexts(4096, 0.05, 600.0) == (128, 1024)
    assert plan.plan_contexts(64, 0.001, 60.0) == (16,)
    assert plan.plan_contexts(33, 9.0, 60.0) == (1,)


@given(st.integers(64, 10000), st.floats(1e-5, 1.0), st.floats(1.0, 1000.0))
def test_contexts_fit(n_ctx: int, token_seconds: float, cap_seconds: float) -> None:
    contexts = plan.plan_contexts(n_ctx, token_seconds, cap_seconds)
    assert contexts[-1] + plan.FULL[-1] < n_ctx
    slower = plan.plan_contexts(n_ctx, 2 * token_seconds, cap_seconds)
    assert slower[-1] <= contexts[-1]


def test_widths_by_use_are_all_widths() -> None:
    assert sorted(plan.BY_USE) == list(plan.FULL)
    assert sorted(plan.BY_USE[: len(plan.COARSE)]) == list(plan.COARSE)


def test_expected_seconds() -> None:
    sheet = Sheet((16, 64))
    assert plan.expected_seconds(sheet, SETTINGS, 16, 4) == 0.0
    sheet.add(SETTINGS, 16, 1, 0.1)
    assert plan.expected_seconds(sheet, SETTINGS, 16, 4) == 0.4
    assert plan.expected_seconds(sheet, SETTINGS, 64, 4) == 0.4
    sheet.add(SETTINGS, 64, 2, 0.3)
    assert plan.expected_seconds(sheet, SETTINGS, 64, 4) == 0.6
    assert plan.expected_seconds(sheet, SETTINGS, 64, 2) == 0.3


def test_half_and_never_fewer_than_two() -> None:
    many = [LlamaSettings(n_threads=n) for n in range(1, 7)]
    assert plan.half_of(many, 8) == many[:4]
    assert plan.half_of(many, 2) == many[:2]
    assert plan.half_of(many[:1], 1) == many[:1]


def test_long_passes_are_timed_once() -> None:
    assert [plan.plain_samples(seconds) for seconds in (0.0, 0.01, 0.25, 2.0)] == [3, 3, 1, 1]


def test_visits_in_turns() -> None:
    both = [LlamaSettings(n_threads=1), LlamaSettings(n_threads=2)]
    turns = plan.visits(both, (16, 64), together=True, begun=0.5)
    assert [visit.context for visit in turns] == [64] * 2 * plan.SWEEPS + [16] * 2 * plan.SWEEPS
    assert [visit.one for visit in turns[:4]] == [*both, *both]
    assert {visit.context: visit.share for visit in turns} == {64: plan.LONG_SHARE, 16: plan.SHORT_SHARE}
    assert {visit.share for visit in plan.visits(both, (16,), together=True, begun=0.5)} == {plan.SHORT_SHARE}


def test_visits_one_after_the_other() -> None:
    both = [LlamaSettings(n_threads=1), LlamaSettings(n_threads=2)]
    turns = plan.visits(both, (16, 64), together=False, begun=0.45)
    assert [visit.one for visit in turns] == [both[0]] * 2 * plan.SWEEPS + [both[1]] * 2 * plan.SWEEPS
    shares = sorted({visit.share for visit in turns})
    assert len(shares) == 4
    assert shares[0] > 0.45
    assert abs(shares[-1] - plan.SHORT_SHARE) < 1e-9
    assert plan.visits([], (16, 64), together=False, begun=0.45) == []
    assert plan.visits(both, (), together=True, begun=0.45) == []
