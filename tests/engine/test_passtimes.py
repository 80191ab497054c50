"""Estimates of passes: the table's where there is one, the fastest of the last few else, nothing before the first."""

from __future__ import annotations

import math

import pytest

from edgespec.engine.passtimes import PassTimes
from edgespec.spec.cost import CostTable

TABLE = CostTable((0, 1000), (1, 2, 4), ((0.010, 0.012, 0.015), (0.020, 0.022, 0.025)))


def test_the_table_is_asked_for_the_next_width_at_the_end_of_a_stretch_of_context() -> None:
    times = PassTimes(TABLE)
    steps = TABLE.steps(512)
    for rows in range(1, 5):
        assert times.verify_seconds(rows, 256) == times.verify_seconds(rows, 511) == steps[rows]
    assert times.verify_seconds(8, 256) == pytest.approx(2 * steps[4])
    times.observe_verify(1, 1e-9)
    assert times.verify_seconds(1, 256) == steps[1]


def test_without_a_table_nothing_is_known_until_something_was_seen() -> None:
    times = PassTimes(None)
    assert times.verify_seconds(1, 0) == times.extend_seconds(1, 0) == math.inf
    times.observe_verify(2, 0.2)
    assert times.extend_seconds(2, 0) == math.inf
    assert [times.verify_seconds(rows, 0) for rows in (1, 2, 4)] == pytest.approx([0.2, 0.2, 0.4])


def test_the_fastest_of_the_last_four_of_a_size_counts() -> None:
    times = PassTimes(None)
    for seconds in (0.1, 0.5, 0.4, 0.3, 0.6):
        times.observe_extend(64, seconds)
    assert times.extend_seconds(64, 0) == 0.3


def test_a_size_that_was_not_seen_takes_its_share_of_the_cheapest_that_was() -> None:
    times = PassTimes(None)
    times.observe_extend(10, 0.1)
    times.observe_extend(100, 0.5)
    assert [times.extend_seconds(n, 0) for n in (5, 20, 50, 200)] == pytest.approx([0.1, 0.2, 0.5, 1.0])


def test_chunks_stand_on_the_widest_pass_until_one_was_read() -> None:
    times = PassTimes(TABLE)
    widest = TABLE.steps(256)[4]
    assert [times.extend_seconds(n, 0) for n in (1, 4, 64)] == pytest.approx([widest, widest, 16 * widest])
    times.observe_extend(64, 0.05)
    assert times.extend_seconds(64, 0) == 0.05
