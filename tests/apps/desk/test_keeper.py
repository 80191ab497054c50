"""The model in memory, over toy engines and real errand threads."""

from __future__ import annotations

import threading

import pytest

from apps.desk.desk import Desk
from apps.desk.keeper import Phase, Progress
from apps.desk.task import Task
from edgespec.errors import EngineFailure
from tests.apps.desk.toy_desk import DEADLINE_SECONDS, LONG, Toy, own_threads, settled, toy_desk, until
from tests.engine.toy_engine import Gate


class Hold:
    """Keeps an errand waiting until it is let go or its task is stopped."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.free = threading.Event()

    def __call__(self, task: Task) -> None:
        self.reached.set()
        ends = 100 * DEADLINE_SECONDS
        while not self.free.wait(0.01) and not task.stopped:
            ends -= 1
            assert ends > 0, "nobody let it go"


def test_a_model_is_opened_with_progress_off_the_callers_thread() -> None:
    hold = Hold()

    def before(task: Task) -> None:
        task.report("loading", 0.25)
        hold(task)

    toy = Toy(before_load=before)
    desk = Desk(toy.means())
    desk.open(None)
    assert desk.keeper.phase is Phase.BUSY
    until(desk, lambda: desk.keeper.progress == Progress("loading", 0.25))
    hold.free.set()
    until(desk, lambda: desk.keeper.ready)
    assert desk.keeper.progress is None
    assert desk.keeper.loaded is not None
    assert desk.keeper.loaded.engine.name == "toy"
    desk.close()
    until(desk, lambda: desk.closed)
    assert threading.get_ident() not in toy.idents
    assert toy.target.closed.is_set()
    assert not own_threads()


def test_what_cannot_be_opened_leaves_what_is_there() -> None:
    with toy_desk() as (desk, toy):
        before = desk.keeper.loaded
        desk.open("missing.gguf")
        settled(desk)
        assert desk.error == "model 'missing.gguf': there is none of that name; name another."
        assert desk.keeper.ready
        assert desk.keeper.loaded is before
        assert not toy.target.closed.is_set()
        desk.open("other")  # the next order takes the sentence away
        assert desk.error == ""
        settled(desk)


def test_nothing_is_left_of_a_first_model_that_cannot_be_opened() -> None:
    desk = Desk(Toy().means())
    desk.open("missing.gguf")
    settled(desk)
    assert desk.keeper.phase is Phase.EMPTY
    desk.close()
    until(desk, lambda: desk.closed)


def test_another_model_takes_the_place_of_the_old_one_and_ends_its_answers() -> None:
    with toy_desk(options=LONG) as (desk, toy):
        gate = Gate(toy.target, lambda one: one.width > 0)
        desk.ask("Why?")
        gate.wait_until_reached()
        desk.open("other")
        until(desk, lambda: len(toy.targets) == 2)  # the old one stays until the new one is there
        assert not toy.targets[0].closed.is_set()
        gate.open()
        settled(desk)
        assert toy.targets[0].closed.is_set()
        assert desk.keeper.loaded is not None
        assert desk.keeper.loaded.name == "other"
        assert desk.current.turns[0].stopped
        desk.ask("And now?")
        settled(desk)
        assert [message.role for message in desk.current.messages()] == ["user", "assistant"] * 2


def test_opening_is_given_up_when_it_is_asked_for() -> None:
    with toy_desk() as (desk, toy):
        hold = Hold()
        toy.before_load = hold
        desk.open("other")
        assert hold.reached.wait(DEADLINE_SECONDS)
        desk.open("third")  # one order at a time
        desk.keeper.cancel()
        settled(desk)
        assert desk.keeper.ready
        assert desk.keeper.loaded is not None
        assert desk.keeper.loaded.name == "toy"
        assert desk.error == ""
        assert len(toy.targets) == 1


def test_tuning_measures_with_nothing_in_memory_and_loads_again() -> None:
    with toy_desk() as (desk, toy):
        desk.ask("Why?")
        settled(desk)
        desk.tune()
        assert not desk.can_ask
        settled(desk)
        assert toy.tuned == ["toy"]
        assert len(toy.targets) == 2
        desk.ask("And now?")
        settled(desk)
        assert len(desk.current.messages()) == 4


@pytest.mark.parametrize("fails", [False, True])
def test_a_tuning_that_is_given_up_or_fails_loads_the_model_again(fails: bool) -> None:
    with toy_desk() as (desk, toy):
        hold = Hold()

        def before(task: Task) -> None:
            hold(task)
            if fails:
                raise EngineFailure("cannot tune toy", "it died", "try again")

        toy.before_tune = before
        desk.tune()
        assert hold.reached.wait(DEADLINE_SECONDS)
        hold.free.set() if fails else desk.keeper.cancel()
        settled(desk)
        assert desk.keeper.ready
        assert desk.error == ("cannot tune toy: it died; try again." if fails else "")
        assert toy.tuned == []
        assert len(toy.targets) == 2


def test_closing_while_tuning_loads_nothing_again() -> None:
    with toy_desk() as (desk, toy):
        hold = Hold()
        toy.before_tune = hold
        desk.tune()
        assert hold.reached.wait(DEADLINE_SECONDS)
        desk.close()
        assert desk.keeper.phase is Phase.CLOSING
        until(desk, lambda: desk.closed)
        assert len(toy.targets) == 1


def test_closing_while_opening_leaves_no_model() -> None:
    hold = Hold()
    toy = Toy(before_load=hold)
    desk = Desk(toy.means())
    desk.open("toy")
    assert hold.reached.wait(DEADLINE_SECONDS)
    desk.close()
    desk.close()
    until(desk, lambda: desk.closed)
    assert not toy.targets
    desk.open("toy")  # too late
    assert desk.keeper.phase is Phase.CLOSED
    assert not own_threads()
