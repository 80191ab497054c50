"""One holder at a time, across threads and processes, and none after a death."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from edgespec.library.lock import exclusive

HOLDER = """
import sys
from pathlib import Path
from edgespec.library.lock import exclusive
with exclusive(Path(sys.argv[1]), lambda: None):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_second_holder_waits_for_the_first(tmp_path: Path) -> None:
    waiting, order = threading.Event(), []

    def second() -> None:
        with exclusive(tmp_path / "lock", waiting.set):
            order.append("second")

    with exclusive(tmp_path / "lock", lambda: None):
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(30)
        order.append("first")
    thread.join(30)
    assert order == ["first", "second"]


def test_an_error_frees_the_lock(tmp_path: Path) -> None:
    def fail() -> None:
        with exclusive(tmp_path / "lock", lambda: None):
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        fail()
    with exclusive(tmp_path / "lock", lambda: pytest.fail("still held")):
        assert (tmp_path / "lock").exists()


def test_a_killed_holder_frees_the_lock(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        waited: list[bool] = []

        def kill() -> None:
            waited.append(True)
            holder.kill()

        with exclusive(tmp_path / "lock", kill):
            assert waited == [True]
