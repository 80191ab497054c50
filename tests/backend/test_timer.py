from __future__ import annotations

import pytest

from edgespec.backend.timer import TimeOver, Timer


def test_it_ends_when_more_than_the_limit_is_spent() -> None:
    now = [5.0]
    timer = Timer(lambda: now[0], 2.0)
    now[0] = 7.0
    timer.check()
    assert timer.spent == 2.0
    now[0] = 7.01
    with pytest.raises(TimeOver):
        timer.check()
