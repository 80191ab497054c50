from __future__ import annotations

import pytest

from edgespec.backend.cores import CoreUse
from edgespec.tune.watch import TOLERATED_CORES, WINDOW_SECONDS, Watch, Window


class Machine:
    """Others use so many of 64 cores; the clock stands unless it is told to go."""

    def __init__(self) -> None:
        self.now = 100.0
        self.others: float | None = 0.0
        self.watch = Watch(lambda: CoreUse(1.0, 64, 1.0, self.others), lambda: self.now, spare_seconds=2.0)

    def after(self, seconds: float, others: float | None) -> Window:
        self.now += seconds
        self.others = others
        return self.watch.look()


def test_a_window_is_judged_when_it_is_long_enough() -> None:
    machine = Machine()
    assert machine.after(0.6 * WINDOW_SECONDS, 5.0) is Window.OPEN
    assert machine.after(0.6 * WINDOW_SECONDS, 5.0) is Window.DISTURBED
    assert machine.after(0.6 * WINDOW_SECONDS, 0.0) is Window.OPEN


@pytest.mark.parametrize(
    ("others", "window"),
    [
        (0.0, Window.QUIET),
        (TOLERATED_CORES, Window.QUIET),
        (0.9, Window.DISTURBED),  # of 64 cores: all threads wait for the one that shares its core
        (None, Window.QUIET),  # nobody knows
    ],
)
def test_one_busy_program_disturbs_however_many_cores_there_are(others: float | None, window: Window) -> None:
    machine = Machine()
    assert machine.after(1.0, others) is window
    assert machine.watch.ended_quietly() is (window is Window.QUIET)


def test_what_disturbed_windows_may_take_is_not_given_back() -> None:
    machine = Machine()
    machine.after(1.0, 0.5)
    assert machine.watch.is_quiet
    assert machine.watch.others == 0.5
    machine.after(50.0, 0.0)
    machine.after(1.5, 1.0)
    assert not machine.watch.is_quiet
    machine.after(500.0, 0.0)
    assert not machine.watch.is_quiet
    assert machine.watch.others == pytest.approx((0.5 + 1.5) / 2.5)


def test_an_undisturbed_machine() -> None:
    watch = Machine().watch
    assert watch.is_quiet
    assert watch.others == 0.0
