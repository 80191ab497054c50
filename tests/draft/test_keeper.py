"""When a draft worker is given up, and when the next one starts."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from edgespec.draft.keeper import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, Keeper
from edgespec.draft.messages import Failed
from edgespec.errors import EngineFailure
from edgespec.spec.step import StepModel
from tests.draft.held_step import PATIENCE_SECONDS, HeldStep, at_once, until
from tests.draft.near_draft import good


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Factory:
    """Opens networks when it may, and fails as long as it shall."""

    def __init__(self) -> None:
        self.n_opened = 0
        self.fails = False
        self.may_open = threading.Event()
        self.may_open.set()
        self.last = HeldStep(good(), at_once)

    def __call__(self) -> StepModel:
        assert self.may_open.wait(PATIENCE_SECONDS)
        self.n_opened += 1
        if self.fails:
            raise EngineFailure("the draft", "no such file", "look again")
        self.last = HeldStep(good(), at_once)
        return self.last


def opened(keeper: Keeper) -> None:
    assert keeper.worker is not None
    worker = keeper.worker
    until(lambda: worker.is_open)


def test_a_worker_lives_until_the_keeper_closes() -> None:
    factory = Factory()
    keeper = Keeper(factory, Clock())
    assert keeper.hung() is None
    with closing(keeper):
        keeper.start()
        opened(keeper)
        first = keeper.worker
        keeper.start()
        assert keeper.worker is first
        assert keeper.hung() is None
    assert factory.last.n_closed == 1
    keeper.start()
    assert keeper.worker is None
    keeper.close()


def test_pauses_double_up_to_a_limit() -> None:
    clock, factory = Clock(), Factory()
    with closing(Keeper(factory, clock)) as keeper:
        pause = FIRST_PAUSE_SECONDS
        for n in range(1, 10):
            keeper.start()
            opened(keeper)
            keeper.give_up()
            assert keeper.n_given_up == n
            clock.now += pause - 1.0
            keeper.start()
            assert keeper.worker is None
            clock.now += 1.0
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        assert pause == LONGEST_PAUSE_SECONDS


def test_good_work_makes_pauses_short_again() -> None:
    clock, factory = Clock(), Factory()
    with closing(Keeper(factory, clock)) as keeper:
        for _ in range(3):
            keeper.start()
            opened(keeper)
            keeper.give_up()
            clock.now += LONGEST_PAUSE_SECONDS
        keeper.start()
        opened(keeper)
        assert keeper.worker is not None
        keeper.worker.n_steps = 1000
        keeper.start()
        assert keeper.n_steps == 1000
        keeper.give_up()
        assert keeper.n_steps == 1000
        clock.now += FIRST_PAUSE_SECONDS
        keeper.start()
        assert keeper.worker is not None


def test_opening_may_take_longer_than_a_call() -> None:
    clock, factory = Clock(), Factory()
    factory.may_open.clear()
    with closing(Keeper(factory, clock, hang_seconds=1.0, open_seconds=100.0)) as keeper:
        keeper.start()
        clock.now += 99.0
        assert keeper.hung() is None
        clock.now += 2.0
        hung = keeper.hung()
        assert str(hung).startswith(
            "the draft network: it has given no answer for 100 s; the answer goes on without it"
        )
        keeper.give_up()
        factory.may_open.set()
        until(lambda: factory.last.n_closed == 1)


def test_a_network_that_cannot_be_opened_is_reported() -> None:
    factory = Factory()
    factory.fails = True
    with closing(Keeper(factory, Clock())) as keeper:
        keeper.start()
        assert keeper.worker is not None
        report = keeper.worker.reports.get(timeout=PATIENCE_SECONDS)
        assert isinstance(report, Failed)
        assert report.sequence == -1
        with pytest.raises(EngineFailure, match="no such file"):
            raise report.error
