"""The parent's side of measuring children: started, asked, watched, ended. At most so many live as memory allows.

Knows how a child fails; not what is measured, nor why.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from edgespec.backend.settings import LlamaSettings
from edgespec.errors import EngineFailure
from edgespec.processes import HOME, child_command
from edgespec.tune.limits import Limits, OutOfTime
from edgespec.tune.protocol import Order, Report

Command = Callable[[LlamaSettings], Sequence[str]]

# How often a wait looks up: the caller has the machine back within this time.
GLANCE_SECONDS = 0.05
# A child may take this much longer than the slowest answer so far; an answer of this many seconds is never too slow.
PATIENCE_FACTOR, PATIENCE_SECONDS = 20.0, 10.0
# After the cap an answer that is under way is still waited for, so that a pass just begun is not wasted.
GRACE_SECONDS = 1.0
# llama.cpp's threads spin for some milliseconds after a pass before they sleep; meanwhile nobody else is timed.
SETTLE_SECONDS = 0.05
# How a Python that does not ignore Ctrl-C yet leaves, here and on Windows: that is no crash of the build.
INTERRUPTED = (-signal.SIGINT, 0xC000013A)


class ChildFailed(Exception):
    """A child died, hung, refused or spoke nonsense; the text says which, in a few words."""


class ChildHung(ChildFailed):
    """It gave no answer in time."""


def setting_command(path: Path) -> Command:
    return lambda settings: child_command("edgespec.tune.child", str(path.absolute()), settings.to_json())


class Child:
    """One process with one setting. After a ChildFailed, OutOfTime or Stopped it is of no use: close it.

    Raises EngineFailure where the system starts no process, or has no room for its words.
    """

    def __init__(self, command: Sequence[str]) -> None:
        try:
            self._words = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as the child, closed with it
            self._process = _start(command, self._words)
        except OSError as error:
            remedy = "end other programs, or make room in the folder for temporary files, and try again"
            raise EngineFailure("cannot start a process to measure in", str(error), remedy) from error
        self._said: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, order: Order) -> None:
        """Send an order. A child that is gone is noticed when its report is awaited."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(order.to_line().encode())
            self._process.stdin.flush()

    def report(self, limits: Limits, patience_seconds: float) -> Report:
        """The next report. Raises ChildFailed; OutOfTime and Stopped when the limits say so."""
        line = self._line(limits, patience_seconds)
        if not line:
            interrupted = self._process.wait() in INTERRUPTED
            raise ChildFailed("interrupted" if interrupted else f"died: {self._last_words()}")
        try:
            report = Report.from_line(line.decode("utf-8", "replace"))
        except ValueError as error:
            raise ChildFailed(f"failed: {error}") from error
        if report.refused:
            raise ChildFailed(f"refused: {report.refused}")
        return report

    def close(self) -> None:
        """End it at once; it holds nothing that has to be saved."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._words):
            assert stream is not None
            with suppress(OSError):  # what was still to be written goes nowhere
                stream.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                self._said.put(line)
        self._said.put(b"")

    def _line(self, limits: Limits, patience_seconds: float) -> bytes:
        began = limits.now()
        while True:
            limits.check_stop()
            with suppress(queue.Empty):
                return self._said.get(timeout=GLANCE_SECONDS)
            if limits.left() < -GRACE_SECONDS:
                raise OutOfTime
            if limits.now() - began > patience_seconds:
                raise ChildHung(f"hung: no answer within {patience_seconds:.0f} s")

    def _last_words(self) -> str:
        code = self._process.wait()
        self._words.seek(0)
        lines = self._words.read().decode("utf-8", "replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), f"it left with code {code}")


def _start(command: Sequence[str], words: IO[bytes]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            env={**os.environ, "GGML_NO_BACKTRACE": "1"},  # else an abort starts a debugger
            cwd=HOME,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
        )
    except OSError:
        words.close()
        raise


class Children:
    """Living children by setting, the one used last at the end. Opening one too many closes the one unused longest.

    slowest_open: seconds that opening one has taken at most, 0 before the first.
    """

    def __init__(self, command: Command, limits: Limits, most: int) -> None:
        self.most = most
        self._command = command
        self._limits = limits
        self._alive: dict[LlamaSettings, Child] = {}
        self._last: LlamaSettings | None = None
        self.slowest_open = 0.0
        self._slowest_answer = 0.0

    def pids(self) -> list[int]:
        """Of the living."""
        return [child.pid for child in self._alive.values()]

    def is_open(self, settings: LlamaSettings) -> bool:
        return settings in self._alive

    def ask(self, settings: LlamaSettings, order: Order, patience_seconds: float | None = None) -> Report:
        """Raises ChildFailed, OutOfTime or Stopped, after which the child is gone; EngineFailure without one."""
        child = self._opened(settings)
        self._settle(settings)
        usual = max(PATIENCE_SECONDS, PATIENCE_FACTOR * self._slowest_answer, self._limits.cap_seconds / 4)
        try:
            child.ask(order)
            report = child.report(self._limits, usual if patience_seconds is None else patience_seconds)
        except BaseException:  # also Ctrl-C: its answer would be taken for the next one's; raised again
            self.close(settings)
            raise
        self._slowest_answer = max(self._slowest_answer, report.seconds)
        return report

    def close(self, settings: LlamaSettings) -> None:
        child = self._alive.pop(settings, None)
        if child is not None:
            child.close()

    def close_all(self) -> None:
        for settings in list(self._alive):
            self.close(settings)

    def _opened(self, settings: LlamaSettings) -> Child:
        child = self._alive.pop(settings, None)
        if child is not None:
            self._alive[settings] = child
            return child
        while len(self._alive) >= self.most:
            self.close(next(iter(self._alive)))
        return self._open(settings)

    def _open(self, settings: LlamaSettings) -> Child:
        began = self._limits.now()
        # A child that hangs while loading must leave time for the others.
        patience = max(PATIENCE_SECONDS, self._limits.cap_seconds / 2, PATIENCE_FACTOR * self.slowest_open)
        child = self._alive[settings] = Child(self._command(settings))
        try:
            child.report(self._limits, patience)
        except ChildHung as failure:  # whatever it was asked for, it has nothing to do with it
            self.close(settings)
            raise ChildFailed(str(failure)) from failure
        except BaseException:  # also Ctrl-C: no child outlives its tuning; raised again
            self.close(settings)
            raise
        self.slowest_open = max(self.slowest_open, self._limits.now() - began)
        return child

    def _settle(self, settings: LlamaSettings) -> None:
        """Before another child is timed, let the threads of the last one fall asleep."""
        if self._last not in (None, settings) and self._last in self._alive:
            threading.Event().wait(SETTLE_SECONDS)
        self._last = settings
