"""Other processes that keep cores busy, and that end whatever happens to whoever started them. Knows no engine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class BusyProcesses:
    """Other processes that wait for a word and then compute until they are ended. They end by themselves when whoever
    started them is gone, however that happened: nothing else would ever stop them.
    """

    PROGRAM = """
import os, threading
print(flush=True)
def watch():
    while os.read(0, 1):
        pass
    os._exit(0)
if not os.read(0, 1):
    os._exit(0)
threading.Thread(target=watch, daemon=True).start()
while True:
    pass
"""

    def __init__(self, n: int) -> None:
        self._children: list[subprocess.Popen[bytes]] = []
        try:
            for _ in range(n):
                command = [sys.executable, "-c", self.PROGRAM]
                self._children.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            for child in self._children:  # Python has started before anything is measured
                assert child.stdout is not None
                child.stdout.readline()
        except BaseException:  # Ctrl-C above all: nobody else knows of them yet
            self.end()
            raise

    def go(self) -> None:
        for child in self._children:
            assert child.stdin is not None
            with suppress(OSError):  # it was ended meanwhile
                child.stdin.write(b"\n")
                child.stdin.flush()

    def end(self) -> None:
        """Ending twice is harmless, also from two threads."""
        children, self._children = self._children, []
        for child in children:
            child.kill()
        for child in children:
            child.communicate()


@contextmanager
def busy_processes(n: int) -> Iterator[BusyProcesses]:
    busy = BusyProcesses(n)
    try:
        yield busy
    finally:
        busy.end()
