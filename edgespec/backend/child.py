"""A process that answers frames, and the watchdog that kills it when an answer takes too long.

Knows nothing of step models: frames go in, frames come out, and what became of the process is told in a few words.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf

from edgespec.backend.frames import BadFrame, Frame, read, write
from edgespec.backend.probe import HOME


class Gone(Exception):
    """A child died, hung or spoke nonsense; the text says which, in a few words."""


class Watchdog:
    """Calls `bite`, once, when an armed deadline passes. Arming is a comparison while an earlier wake-up is due."""

    def __init__(self, bite: Callable[[], None]) -> None:
        self._bite = bite
        self._changed = threading.Condition()
        self._deadline = inf
        self._sleeps_until = inf
        self._most = inf
        self._is_over = False
        threading.Thread(target=self._watch, daemon=True, name="edgespec-watchdog").start()

    def arm(self, seconds: float) -> None:
        with self._changed:
            self._set(time.monotonic() + min(seconds, self._most))

    def disarm(self) -> None:
        with self._changed:
            self._deadline = inf

    def limit(self, most_seconds: float) -> None:
        """No deadline lies further away than this, not even the one that is armed; inf lifts the limit."""
        with self._changed:
            self._most = most_seconds
            if self._deadline < inf:
                self._set(min(self._deadline, time.monotonic() + most_seconds))

    def end(self) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify()

    def _set(self, deadline: float) -> None:
        self._deadline = deadline
        if deadline < self._sleeps_until:
            self._changed.notify()

    def _watch(self) -> None:
        with self._changed:
            while not self._is_over:
                self._sleeps_until = self._deadline
                left = self._sleeps_until - time.monotonic()
                if left <= 0.0:
                    self._bite()
                    return
                self._changed.wait(None if left == inf else left)


class Child:
    """One process, which speaks first: see `first`. After Gone it is of no use: end it.

    open_seconds: until its first frame. Waits for nothing. Raises OSError where the system starts no process.
    """

    def __init__(self, command: Sequence[str], open_seconds: float) -> None:
        self._hung_after = 0.0
        self._limit = 0.0
        self._words = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as the child, closed with it
        try:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, "GGML_NO_BACKTRACE": "1"},  # else an abort starts a debugger
                cwd=HOME,  # "-m" looks there first: a user's folder may hold a numpy.py
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._words,
            )
        except OSError:
            self._words.close()
            raise
        self._watchdog = Watchdog(self._bite)
        self._first: Frame | Gone = Gone("it was not heard of yet")
        self._has_begun = threading.Event()
        threading.Thread(target=self._listen, args=(open_seconds,), daemon=True, name="edgespec-opening").start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_loading(self) -> bool:
        """Whether `first` would wait."""
        return not self._has_begun.is_set()

    def first(self) -> Frame:
        """What it says of its own accord, once it is ready. Raises Gone."""
        self._has_begun.wait()
        if isinstance(self._first, Gone):
            raise self._first
        return self._first

    def ask(self, call: Frame, limit_seconds: float) -> Frame:
        """The answer to a call, after the first frame. Raises Gone."""
        return self._exchange(call, limit_seconds)

    def limit(self, most_seconds: float) -> None:
        """Calls, also one under way, end after so many more seconds at most; inf lifts that. From any thread."""
        if not self.is_loading:
            self._limit = min(self._limit, most_seconds)
            self._watchdog.limit(most_seconds)

    def end(self) -> None:
        """At once; it holds nothing that has to be saved."""
        self._watchdog.end()
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._words):
            assert stream is not None
            with suppress(OSError):  # what was still to be written goes nowhere
                stream.close()

    def _listen(self, open_seconds: float) -> None:
        try:
            self._first = self._exchange(None, open_seconds)
        except Gone as gone:
            self._first = gone
        finally:  # whatever happened, nobody may wait for ever
            self._has_begun.set()

    def _exchange(self, call: Frame | None, limit_seconds: float) -> Frame:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        self._limit = limit_seconds
        self._watchdog.arm(limit_seconds)
        try:
            if call is not None:
                write(process.stdin, call)
            frame = read(process.stdout)
        except BadFrame as error:
            raise Gone(str(error)) from error
        except (OSError, EOFError, ValueError) as error:  # ValueError: another thread has ended it
            raise Gone(self._last_words()) from error
        self._watchdog.disarm()
        return frame

    def _bite(self) -> None:
        self._hung_after = self._limit
        self._process.kill()

    def _last_words(self) -> str:
        """The watchdog still sees to it that a child which has only closed its output ends."""
        code = self._process.wait()
        if self._hung_after:
            return f"its process gave no answer within {self._hung_after:g} s"
        lines: list[str] = []
        with suppress(ValueError):  # closed meanwhile by another thread
            self._words.seek(0)
            lines = self._words.read().decode("utf-8", "replace").splitlines()
        said = next((line.strip() for line in reversed(lines) if line.strip()), f"it left with code {code}")
        return f"its process died ({said})"
