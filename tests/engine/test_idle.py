from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Queue

import pytest

from edgespec.backend.settings import LlamaSettings
from edgespec.engine.idle import MOST_ATTEMPTS, IdleTuner, Measure
from edgespec.errors import EngineFailure, NotEnoughMemory
from edgespec.spec.cost import CostTable
from edgespec.tune.tuning import Choice, Tuned, Tuning
from tests.engine.toy_engine import DEADLINE_SECONDS

TABLE = CostTable((0,), (1,), ((0.01,),))
FOUND = Tuning(
    (Choice(100, Tuned(LlamaSettings(), TABLE, TABLE)),), (0,), (), LlamaSettings(), 1.0, (), False, "2026-01-01"
)


@contextmanager
def tuner(measure: Measure, quiet: threading.Event, found: Queue[Tuning]) -> Iterator[IdleTuner]:
    one = IdleTuner(measure, quiet, found.put, patience_seconds=0.0)
    try:
        yield one
    finally:
        one.close()


def test_what_is_found_is_handed_over_once() -> None:
    quiet, found = threading.Event(), Queue[Tuning]()
    quiet.set()
    with tuner(lambda _: FOUND, quiet, found):
        assert found.get(timeout=DEADLINE_SECONDS) is FOUND
    assert found.empty()


def test_nothing_is_measured_while_something_is_asked() -> None:
    quiet, found, calls = threading.Event(), Queue[Tuning](), Queue[bool]()

    def measure(should_stop: Callable[[], bool]) -> Tuning | None:
        calls.put(should_stop())
        return FOUND

    with tuner(measure, quiet, found):
        assert calls.empty()
        quiet.set()
        assert calls.get(timeout=DEADLINE_SECONDS) is False
        assert found.get(timeout=DEADLINE_SECONDS) is FOUND


def test_a_question_stops_it_and_the_next_idle_moment_goes_on() -> None:
    quiet, found, began = threading.Event(), Queue[Tuning](), Queue[int]()
    stopped: list[bool] = []

    def measure(should_stop: Callable[[], bool]) -> Tuning | None:
        began.put(len(stopped))
        if stopped:
            return FOUND
        while not should_stop():
            threading.Event().wait(0.001)
        stopped.append(True)
        return None

    quiet.set()
    with tuner(measure, quiet, found):
        assert began.get(timeout=DEADLINE_SECONDS) == 0
        quiet.clear()
        while not stopped:
            threading.Event().wait(0.001)
        quiet.set()
        assert found.get(timeout=DEADLINE_SECONDS) is FOUND


def test_closing_ends_a_measurement_under_way_and_hands_nothing_over() -> None:
    quiet, found, began = threading.Event(), Queue[Tuning](), threading.Event()
    quiet.set()

    def measure(should_stop: Callable[[], bool]) -> Tuning | None:
        began.set()
        while not should_stop():
            threading.Event().wait(0.001)
        return FOUND

    with tuner(measure, quiet, found):
        assert began.wait(DEADLINE_SECONDS)
    assert found.empty()


def test_what_cannot_be_measured_is_given_up_in_silence() -> None:
    quiet, found, n_calls = threading.Event(), Queue[Tuning](), Queue[int]()
    quiet.set()

    def refuse(_should_stop: Callable[[], bool]) -> Tuning | None:
        n_calls.put(1)
        raise NotEnoughMemory("what", "why", "remedy")

    with tuner(refuse, quiet, found):
        n_calls.get(timeout=DEADLINE_SECONDS)
    assert found.empty()
    assert n_calls.empty()


@pytest.mark.parametrize("error", [EngineFailure("a process", "no memory", "wait"), OSError("no file")])
def test_a_process_that_cannot_be_started_is_tried_again(error: Exception) -> None:
    quiet, found, calls = threading.Event(), Queue[Tuning](), Queue[int]()
    quiet.set()

    def fail_once(_should_stop: Callable[[], bool]) -> Tuning | None:
        calls.put(1)
        if calls.qsize() == 1:
            raise error
        return FOUND

    with tuner(fail_once, quiet, found):
        assert found.get(timeout=DEADLINE_SECONDS) is FOUND
    assert calls.qsize() == 2


def test_a_machine_that_disturbs_every_attempt_is_left_in_peace() -> None:
    quiet, found, calls = threading.Event(), Queue[Tuning](), Queue[int]()
    quiet.set()

    def fail(_should_stop: Callable[[], bool]) -> Tuning | None:
        calls.put(1)
        return None

    with tuner(fail, quiet, found) as one:
        for _ in range(MOST_ATTEMPTS):
            calls.get(timeout=DEADLINE_SECONDS)
        one._thread.join(DEADLINE_SECONDS)
        assert not one._thread.is_alive()
    assert calls.empty()
