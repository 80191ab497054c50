"""Busy processes wait for a word, and end whatever happens to whoever started them."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from tools.busy_processes import BusyProcesses, busy_processes

DEADLINE_SECONDS = 30.0


def test_they_wait_and_are_gone_afterwards() -> None:
    busy = BusyProcesses(1)
    child = busy._children[0]
    assert child.poll() is None
    busy.go()
    busy.end()
    busy.end()
    busy.go()
    assert child.poll() is not None


@pytest.mark.parametrize("goes", [False, True])
def test_one_ends_by_itself_when_its_stdin_does(goes: bool) -> None:
    busy = BusyProcesses(1)
    child = busy._children[0]
    try:
        if goes:
            busy.go()
        assert child.stdin is not None
        child.stdin.close()
        assert child.wait(DEADLINE_SECONDS) == 0
    finally:
        child.stdin = None  # nothing more to flush into it
        busy.end()


@pytest.mark.parametrize("word", ["", "busy.go()"])
def test_they_end_with_whoever_started_them(word: str) -> None:
    program = (
        "import os; from tools.busy_processes import BusyProcesses\n"
        f"busy = BusyProcesses(1)\n{word}\n"
        "print(busy._children[0].pid, flush=True)\n"
        "os._exit(0)"
    )
    # A pipe that the child inherited would keep `run` waiting for it.
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    try:
        psutil.Process(int(done.stdout)).wait(timeout=DEADLINE_SECONDS)
    except psutil.NoSuchProcess:
        assert done.stdout


def test_an_error_meanwhile_ends_them() -> None:
    with pytest.raises(RuntimeError), busy_processes(2) as busy:  # noqa: PT012
        children = list(busy._children)
        busy.go()
        raise RuntimeError
    assert [child.poll() is None for child in children] == [False, False]


def test_one_that_cannot_be_started_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def start_one(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
        if started:
            raise OSError("no more processes")
        started.append(popen(*arguments, **options))  # type: ignore[call-overload]
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", start_one)
    with pytest.raises(OSError, match="no more"):
        BusyProcesses(2)
    assert started[0].poll() is not None
