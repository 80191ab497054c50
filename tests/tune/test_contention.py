from __future__ import annotations

import pytest

from edgespec.tune.contention import Cpu, foreign_share, read_cpu

START = Cpu(busy=1000.0, own=5.0, wall=70.0)


@pytest.mark.parametrize(
    ("busy", "own", "children", "share"),
    [
        (20.0, 0.0, 20.0, 0.0),  # the children alone
        (20.0, 4.0, 10.0, 0.3),  # 6 of 20 core seconds are somebody else's
        (20.0, 0.0, 0.0, 1.0),
        (3.0, 1.0, 4.0, 0.0),  # counters are read one after the other
        (50.0, 0.0, 0.0, 1.0),
    ],
)
def test_shares(busy: float, own: float, children: float, share: float) -> None:
    end = Cpu(1000.0 + busy, 5.0 + own, 80.0)
    assert foreign_share(START, end, children, 2) == pytest.approx(share)


def test_no_time() -> None:
    assert foreign_share(START, START, 0.0, 2) == 0.0


def test_counters_only_grow() -> None:
    first = read_cpu(1.0)
    second = read_cpu(2.0)
    assert 0.0 < first.own <= second.own
    assert 0.0 < first.busy <= second.busy
    assert (first.wall, second.wall) == (1.0, 2.0)
