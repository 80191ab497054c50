"""The watchdog alone, and what a process leaves behind; calls are tested with `RemoteStep`."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import psutil
import pytest

from edgespec.backend import child as child_module
from edgespec.backend.child import Child, Gone, Watchdog, ended
from edgespec.backend.frames import Frame, Kind

PATIENCE_SECONDS = 60.0
READY = "from edgespec.backend.frames import *; import sys; out = sys.stdout.buffer; write(out, Frame(Kind.READY)); "


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


def python(script: str) -> list[str]:
    return [sys.executable, "-c", script]


def next_file() -> int:
    """The number that the next open file gets: the lowest free one."""
    with open(os.devnull, "rb") as stream:
        return stream.fileno()


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


# -- processes --------------------------------------------------------------------------------------------------------


def test_what_a_child_says_does_not_fill_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that warns in every step is forgotten from time to time; the last words are still there."""
    monkeypatch.setattr(child_module, "MOST_WORDS_BYTES", 4000)
    monkeypatch.setattr(child_module, "_LOOK_EVERY", 4)
    loop = (
        "exec('for i in range(64):\\n read(sys.stdin.buffer)\\n print(i, 999 * chr(46), file=sys.stderr, flush=True)"
        "\\n write(out, Frame(Kind.DONE))'); sys.exit('the end')"
    )
    child = Child(python(READY + loop), PATIENCE_SECONDS)
    assert child.first().kind is Kind.READY
    longest = 0
    for _ in range(64):
        assert child.ask(Frame(Kind.KEEP), PATIENCE_SECONDS).kind is Kind.DONE
        longest = max(longest, os.fstat(child._words.fileno()).st_size)
    assert 4000 < longest < 4000 + 5 * 1010
    with pytest.raises(Gone, match=r"its process died \(the end\)"):
        child.ask(Frame(Kind.KEEP), PATIENCE_SECONDS)
    child.end()


def test_of_a_long_tale_the_last_line_is_told() -> None:
    child = Child(python("import sys; sys.exit('x' * 99 + chr(10) + 'y' * 30000 + chr(10) + 'it was the heat')"), 60.0)
    with pytest.raises(Gone, match=r"its process died \(it was the heat\)"):
        child.first()
    child.end()


def test_lost_children_leave_no_file_no_thread_and_no_zombie() -> None:
    def lose() -> None:
        child = Child(python("raise SystemExit(3)"), PATIENCE_SECONDS)
        with pytest.raises(Gone, match="code 3"):
            child.first()
        child.end()
        child.end()

    threads = threading.active_count()
    lose()
    until(lambda: threading.active_count() <= threads)
    others = set(psutil.Process().children())
    files = next_file()
    for _ in range(10):
        lose()
    until(lambda: threading.active_count() <= threads)
    assert next_file() == files
    left = set(psutil.Process().children()) - others
    assert not [one for one in left if one.status() == psutil.STATUS_ZOMBIE]


def test_a_system_without_threads_is_one_that_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    before, files = set(psutil.Process().children()), next_file()

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(OSError, match="can't start new thread"):
        Child(python("input()"), PATIENCE_SECONDS)
    assert set(psutil.Process().children()) <= before
    assert next_file() == files


def test_a_process_that_does_not_end_is_not_waited_for_and_leaves_no_zombie() -> None:
    with subprocess.Popen(python("input()"), stdin=subprocess.PIPE) as process:
        assert not ended(process, 0.01)
        assert process.stdin is not None
        process.stdin.close()
        until(lambda: process.returncode is not None)  # nobody asks but the thread that waits
        assert ended(process, PATIENCE_SECONDS)


def test_a_pipe_that_stays_open_when_the_child_is_gone_is_not_waited_for() -> None:
    """Here a process that it started holds it; a process that the kernel does not let go does so too."""
    heir = "import subprocess; heir = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
    ready = READY.replace("Frame(Kind.READY)", "Frame(Kind.READY, (heir.pid,))").replace("out =", heir + "out =")
    threads = threading.active_count()
    child = Child(python(ready + "read(sys.stdin.buffer); heir.wait()"), PATIENCE_SECONDS)
    (heir_id,) = child.first().numbers
    with pytest.raises(Gone, match=r"its process gave no answer within 0.2 s"):
        child.ask(Frame(Kind.KEEP), 0.2)
    child.end()
    psutil.Process(heir_id).kill()
    until(lambda: threading.active_count() <= threads)


def test_one_that_closes_its_pipe_and_stays_is_lost() -> None:
    child = Child(python("import os, time; os.close(1); time.sleep(600)"), PATIENCE_SECONDS)
    with pytest.raises(Gone, match=r"its process died \(it closed its pipe\)"):
        child.first()
    child.end()
