"""The watchdog alone; what it does to a process is tested with `RemoteStep`."""

from __future__ import annotations

import threading

from edgespec.backend.child import Watchdog

PATIENCE_SECONDS = 60.0


class Bitten:
    def __init__(self) -> None:
        self.once = threading.Event()
        self.n = 0
        self.dog = Watchdog(self)

    def __call__(self) -> None:
        self.n += 1
        self.once.set()


def test_it_bites_at_the_deadline_and_once() -> None:
    bitten = Bitten()
    bitten.dog.arm(600.0)
    bitten.dog.disarm()
    bitten.dog.arm(0.001)
    assert bitten.once.wait(PATIENCE_SECONDS)
    bitten.dog.arm(0.0)
    bitten.dog.end()
    assert bitten.n == 1


def test_a_later_deadline_replaces_an_earlier_one() -> None:
    bitten = Bitten()
    bitten.dog.arm(0.1)
    bitten.dog.arm(600.0)
    other = Bitten()
    other.dog.arm(0.2)
    assert other.once.wait(PATIENCE_SECONDS)
    assert bitten.n == 0
    bitten.dog.end()


def test_a_limit_holds_for_the_armed_deadline_and_for_later_ones() -> None:
    armed, later = Bitten(), Bitten()
    armed.dog.arm(600.0)
    armed.dog.limit(0.001)
    later.dog.limit(0.001)
    later.dog.arm(600.0)
    assert armed.once.wait(PATIENCE_SECONDS)
    assert later.once.wait(PATIENCE_SECONDS)


def test_a_limit_arms_nothing_and_can_be_lifted() -> None:
    idle, lifted, other = Bitten(), Bitten(), Bitten()
    idle.dog.arm(600.0)
    idle.dog.disarm()
    idle.dog.limit(0.0)
    lifted.dog.limit(0.0)
    lifted.dog.limit(float("inf"))
    lifted.dog.arm(600.0)
    other.dog.arm(0.1)
    assert other.once.wait(PATIENCE_SECONDS)
    assert (idle.n, lifted.n) == (0, 0)
    idle.dog.end()
    lifted.dog.end()
