from __future__ import annotations

import threading

import pytest

from apps.desk.errands import Errands, sentence_of
from apps.desk.handover import Handover
from edgespec.errors import BadInput


def run(errands: Errands, handover: Handover, work: object) -> list[str]:
    said: list[str] = []
    assert callable(work)
    errands.run("work", work, said.append).join()
    assert errands.n_running == 1  # nobody has heard of its end yet
    handover.drain()
    assert errands.n_running == 0
    return said


def test_work_is_done_in_a_thread_with_a_name() -> None:
    handover = Handover()
    names: list[str] = []
    said = run(Errands(handover), handover, lambda: names.append(threading.current_thread().name))
    assert names == ["edgespec-desk-work"]
    assert not said


def test_an_error_is_one_sentence_with_its_remedy() -> None:
    handover = Handover()

    def work() -> None:
        raise BadInput("a value", "it cannot be", "give another")

    assert run(Errands(handover), handover, work) == ["a value: it cannot be; give another."]


def test_a_defect_is_told_too() -> None:
    handover = Handover()
    (said,) = run(Errands(handover), handover, lambda: 1 // 0)
    assert "ZeroDivisionError" in said
    assert "report" in said
    assert "\n" not in said


def test_the_end_of_the_program_is_not_caught() -> None:
    def work() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sentence_of(work)
