from __future__ import annotations

import pytest

from apps.desk.task import Stopped, Task


def test_a_task_is_stopped_and_goes_on_with_something_else() -> None:
    said: list[tuple[str, float | None]] = []
    task = Task(lambda doing, done: said.append((doing, done)))
    task.report("loading", 0.25)
    task.check()
    task.stop()
    task.stop()
    assert task.stopped
    with pytest.raises(Stopped):
        task.check()
    task.resume()
    task.report("closing")
    task.check()
    assert said == [("loading", 0.25), ("closing", None)]
