"""The keeper: its program ends when the keeper's stdin does, and its code is passed on."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from tools.peer_server import KEEPER


def keep(*command: str) -> subprocess.Popen[str]:
    words = [sys.executable, str(KEEPER), *command]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")


def test_the_code_of_the_program_is_told() -> None:
    with keep(sys.executable, "-c", "raise SystemExit(5)") as keeper:
        assert keeper.stdout is not None
        pid, code = keeper.stdout.read().split()
    assert int(pid) != keeper.pid
    assert code == "5"


def test_the_program_does_not_outlive_whoever_started_it() -> None:
    with keep(sys.executable, "-c", "import time; time.sleep(60)") as keeper:
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        pid = int(keeper.stdout.readline())
        assert psutil.pid_exists(pid)
        keeper.stdin.close()
        keeper.wait(10)
        assert not psutil.pid_exists(pid)


# Takes Ctrl-C like a server that still has to finish something.
STUBBORN = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)"
INTERRUPTED = """
import signal, sys, threading
from tools.peer_keeper import main
threading.Timer(0.5, signal.raise_signal, [getattr(signal, sys.argv.pop(1))]).start()
main()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_ctrl_c_ends_the_program_too(name: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED, name, sys.executable, "-c", STUBBORN]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as keeper:
        assert keeper.stdout is not None
        pid = int(keeper.stdout.readline())
        assert psutil.pid_exists(pid)
        assert keeper.wait(50) == 130
    gone = not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    assert gone
