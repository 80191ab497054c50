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
from queue import SimpleQueue
from typing import IO

from edgespec.backend.frames import BadFrame, Frame, read, write
from edgespec.processes import HOME

# A killed process is gone in a moment, unless a driver holds it in the kernel: no answer waits for that.
_END_SECONDS = 2.0

# What a child says in its life goes to a file, of which the last lines are wanted. Some libraries warn in every step.
MOST_WORDS_BYTES = 1 << 20
_LAST_BYTES = 1 << 13
_LOOK_EVERY = 256


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

    A thread reads what it says, so that no pipe is waited for which nobody closes: what the kernel does not let go, or
    a process that it has started, may hold it open. open_seconds: until its first frame. Waits for nothing. Raises
    OSError where the system starts no process.
    """

    def __init__(self, command: Sequence[str], open_seconds: float) -> None:
        self._hung_after = 0.0
        self._limit = open_seconds
        self._n_asked = 0
        # Open as long as the child, closed with it. Both have one position in it, so it is read where the child writes.
        self._words = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        try:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, "GGML_NO_BACKTRACE": "1"},  # else an abort starts a debugger
                cwd=HOME,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._words,
            )
        except OSError:
            self._words.close()
            raise
        self._first: Frame | Gone = Gone("it was not heard of yet")
        self._has_begun = threading.Event()
        self._answers: SimpleQueue[Frame | Gone] = SimpleQueue()
        try:
            self._watchdog = Watchdog(self._bite)
            self._watchdog.arm(open_seconds)
            threading.Thread(target=self._listen, daemon=True, name="edgespec-listener").start()
        except RuntimeError as error:  # the system has no thread left
            self._kill()
            self._close(self._process.stdout)
            raise OSError(str(error)) from error

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
        assert self._process.stdin is not None
        self._n_asked += 1
        if self._n_asked % _LOOK_EVERY == 0:
            self._shorten_words()
        self._limit = limit_seconds
        self._watchdog.arm(limit_seconds)
        with suppress(OSError, ValueError):  # it is gone, and who listens says why; ValueError: it was ended
            write(self._process.stdin, call)
        said = self._answers.get()
        if isinstance(said, Gone):
            raise said
        self._watchdog.disarm()
        return said

    def limit(self, most_seconds: float) -> None:
        """Calls, also one under way, end after so many more seconds at most; inf lifts that. From any thread."""
        if not self.is_loading:
            self._limit = min(self._limit, most_seconds)
            self._watchdog.limit(most_seconds)

    def end(self) -> None:
        """At once; it holds nothing that has to be saved."""
        self._watchdog.end()
        self._hear(Gone("it was ended"))
        self._kill()

    def _kill(self) -> None:
        self._process.kill()
        ended(self._process, _END_SECONDS)
        for stream in (self._process.stdin, self._words):
            self._close(stream)

    def _close(self, stream: IO[bytes] | None) -> None:
        assert stream is not None
        with suppress(OSError):  # what was still to be written goes nowhere
            stream.close()

    def _listen(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        try:
            ready = read(stream)
            self._watchdog.disarm()  # before anybody hears of it, and asks
            self._hear(ready)
            while True:
                self._hear(read(stream))
        except BadFrame as error:
            self._hear(Gone(str(error)))
        except (OSError, EOFError):
            self._hear(Gone(self._last_words()))
        finally:
            self._close(stream)

    def _hear(self, said: Frame | Gone) -> None:
        """Whoever waits need not wait any more."""
        if self.is_loading:
            self._first = said
            self._has_begun.set()
        else:
            self._answers.put(said)

    def _bite(self) -> None:
        self._hung_after = self._limit
        self._process.kill()
        self._hear(Gone(self._hung()))

    def _hung(self) -> str:
        return f"its process gave no answer within {self._hung_after:g} s"

    def _last_words(self) -> str:
        """A child which has only closed its output is ended by the watchdog, or by who hears of this."""
        has_left = ended(self._process, _END_SECONDS)
        if self._hung_after:
            return self._hung()
        lines: list[str] = []
        with suppress(ValueError, OSError):  # closed meanwhile by another thread
            self._words.seek(max(0, self._words.seek(0, os.SEEK_END) - _LAST_BYTES))
            lines = self._words.read().decode("utf-8", "replace").splitlines()
        left = f"it left with code {self._process.returncode}" if has_left else "it closed its pipe"
        said = next((line.strip() for line in reversed(lines) if line.strip()), left)
        return f"its process died ({said})"

    def _shorten_words(self) -> None:
        """Forget what was said so far, if that is much."""
        with suppress(ValueError, OSError):  # as in _last_words
            if self._words.seek(0, os.SEEK_END) > MOST_WORDS_BYTES:
                self._words.seek(0)
                self._words.truncate()


def ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait for a process that was killed, or has closed its output; no longer than that. One that stays is waited for
    by a thread, so that it leaves no zombie.
    """
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
        return True
    threading.Thread(target=process.wait, daemon=True, name="edgespec-reaper").start()
    return False
