from __future__ import annotations

import pytest

from edgespec.tune.limits import Limits, Stopped


def test_time_is_counted_from_the_making() -> None:
    moments = iter([100.0, 103.0, 104.0, 125.0])
    limits = Limits(lambda: next(moments), 20.0, lambda: False)
    assert limits.now() == 3.0
    assert limits.left(0.5) == 6.0
    assert limits.left() == -5.0


def test_more_time_can_be_granted_whatever_was_spent() -> None:
    now = [0.0]
    limits = Limits(lambda: now[0], 20.0, lambda: False)
    for moment, granted in ((35.0, 5.0), (38.0, 30.0), (100.0, 1.0)):
        now[0] = moment
        limits.grant(granted)
        assert limits.left() == granted
        now[0] = moment + 2.0
        assert limits.left() == granted - 2.0
    assert limits.cap_seconds == 20.0


def test_stopping() -> None:
    wishes = iter([False, True])
    limits = Limits(lambda: 0.0, 20.0, lambda: next(wishes))
    limits.check_stop()
    with pytest.raises(Stopped):
        limits.check_stop()
