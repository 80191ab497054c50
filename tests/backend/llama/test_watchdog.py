"""Deadlines that pass are called out once; those that do not, never. The clock is the test's own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from edgespec.backend.llama.watchdog import Watchdog

PATIENCE_SECONDS = 60.0


class Bell:
    """Counts rings, and has a clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0
        self.n_rings = 0
        self.rang = threading.Event()
        self.looked = threading.Semaphore(0)

    def clock(self) -> float:
        if threading.current_thread() is not threading.main_thread():
            self.looked.release()
        return self.now

    def ring(self) -> None:
        self.n_rings += 1
        self.rang.set()

    def wait_for_looks(self, n: int) -> None:
        """Until the watchdog has asked for the time so many times from now on."""
        while self.looked.acquire(blocking=False):
            pass
        for _ in range(n):
            assert self.looked.acquire(timeout=PATIENCE_SECONDS)


def fall_asleep(dog: Watchdog, bell: Bell) -> None:
    """Nothing happens for ten seconds."""
    bell.now += 10.0
    until = time.monotonic() + PATIENCE_SECONDS
    while not dog.asleep:
        assert time.monotonic() < until
        time.sleep(0.001)


@pytest.fixture
def bell() -> Bell:
    return Bell()


@pytest.fixture
def dog(bell: Bell) -> Iterator[Watchdog]:
    one = Watchdog(bell.ring, bell.clock)
    yield one
    one.close()


def test_a_deadline_that_passes_is_called_out_once(dog: Watchdog, bell: Bell) -> None:
    dog.arm(1.0)
    bell.wait_for_looks(3)
    assert bell.n_rings == 0
    bell.now += 1.0
    assert bell.rang.wait(PATIENCE_SECONDS)
    bell.wait_for_looks(3)
    assert bell.n_rings == 1


def test_a_pass_that_ends_in_time_is_never_called_out(dog: Watchdog, bell: Bell) -> None:
    for _ in range(100):
        dog.arm(1.0)
        bell.now += 0.9
        dog.disarm()
    fall_asleep(dog, bell)
    assert bell.n_rings == 0


def test_a_new_deadline_replaces_the_old_one(dog: Watchdog, bell: Bell) -> None:
    dog.arm(1.0)
    dog.arm(100.0)
    bell.now += 50.0
    bell.wait_for_looks(3)
    assert bell.n_rings == 0
    dog.arm(1.0)
    bell.now += 1.5
    assert bell.rang.wait(PATIENCE_SECONDS)


def test_one_that_fell_asleep_is_woken_by_the_next_deadline(dog: Watchdog, bell: Bell) -> None:
    for n in (1, 2):
        fall_asleep(dog, bell)
        dog.arm(1.0)
        bell.now += 2.0
        assert bell.rang.wait(PATIENCE_SECONDS)
        assert bell.n_rings == n
        bell.rang.clear()


def test_after_disarm_nothing_is_called_out_however_the_moments_fall(dog: Watchdog, bell: Bell) -> None:
    for _ in range(2000):
        dog.arm(0.0)
        dog.disarm()
        n_rings = bell.n_rings
        bell.now += 1.0
        assert bell.n_rings == n_rings


def test_closing_ends_the_thread_asleep_or_not(bell: Bell) -> None:
    n_threads = threading.active_count()
    awake, asleep = Watchdog(bell.ring, bell.clock), Watchdog(bell.ring, bell.clock)
    awake.close()
    awake.close()
    fall_asleep(asleep, bell)
    asleep.close()
    assert threading.active_count() == n_threads
