from __future__ import annotations

import pytest

from edgespec.tune.limits import Limits, Stopped


def test_time_is_counted_from_the_making() -> None:
    moments = iter([100.0, 103.0, 104.0, 125.0])
    limits = Limits(lambda: next(moments), 20.0, lambda: False)
    assert limits.now() == 3.0
    assert limits.left(0.5) == 6.0
    assert limits.left() == -5.0


def test_stopping() -> None:
    wishes = iter([False, True])
    limits = Limits(lambda: 0.0, 20.0, lambda: next(wishes))
    limits.check_stop()
    with pytest.raises(Stopped):
        limits.check_stop()
