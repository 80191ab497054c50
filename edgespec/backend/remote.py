"""A step model that lives in a process of its own, for drafts whose native code may hang or crash.

Contract: `RemoteStep` is a StepModel. A call that takes too long kills the child; that, a dead child and nonsense in
the pipe raise StepLost: every cell is gone, and the next call that starts at cell 0 starts a new child, not before a
pause that doubles with each loss in a row. Numbers pass through as they are, NaN included. Knows nothing of drafting.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf

from edgespec.backend.frames import BadFrame, Frame, Kind, read, write
from edgespec.backend.probe import HOME
from edgespec.errors import EngineFailure
from edgespec.spec.ports import IntArray
from edgespec.spec.step import Ranked, StepLimits

# A draft step takes milliseconds; a first one may compile. Beyond this the child is stuck.
CALL_SECONDS = 10.0
# Loading and compiling a draft from a slow disk.
OPEN_SECONDS = 120.0
# Pauses before a new child: one hiccup is soon forgotten, a draft that always dies costs little.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 120.0
# Calls that went well before the pauses start over.
_FORGIVEN = 256

_REMEDY = "the answer goes on without it; if this happens again, choose another draft or '--draft off'"

Command = Callable[[str], Sequence[str]]


class StepLost(EngineFailure):
    """The step model lost its cells: read again from cell 0."""


def child_command(spec: str) -> Sequence[str]:
    return [sys.executable, "-m", "edgespec.backend.remote_child", spec]


class _Watchdog:
    """Calls `bite` when an armed deadline passes. Arming is a comparison while an earlier wake-up is due anyway."""

    def __init__(self, bite: Callable[[], None]) -> None:
        self._bite = bite
        self._changed = threading.Condition()
        self._deadline = inf
        self._sleeps_until = inf
        self._is_over = False
        threading.Thread(target=self._watch, daemon=True, name="edgespec-watchdog").start()

    def arm(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        if self._deadline < self._sleeps_until:
            self._wake()

    def disarm(self) -> None:
        self._deadline = inf

    def end(self) -> None:
        self._is_over = True
        self._wake()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify()

    def _watch(self) -> None:
        with self._changed:
            while not self._is_over:
                # In this order: whoever arms in between either is seen here or finds that it has to wake the wait.
                self._sleeps_until = inf
                self._sleeps_until = self._deadline
                left = self._sleeps_until - time.monotonic()
                if left <= 0.0:
                    self._bite()
                    return
                self._changed.wait(None if left == inf else left)


class _Gone(Exception):
    """A child died, hung or spoke nonsense; the text says which, in a few words."""


class _Child:
    """One process. After _Gone it is of no use: end it. Raises OSError where the system starts none."""

    def __init__(self, command: Sequence[str]) -> None:
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
        self._watchdog = _Watchdog(self._bite)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, call: Frame | None, limit_seconds: float) -> Frame:
        """The answer to a call, or to None the child's first frame."""
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
            raise _Gone(str(error)) from error
        except (OSError, EOFError, ValueError) as error:  # ValueError: another thread has ended it
            raise _Gone(self._last_words()) from error
        self._watchdog.disarm()
        return frame

    def end(self) -> None:
        """At once; it holds nothing that has to be saved."""
        self._watchdog.end()
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._words):
            assert stream is not None
            with suppress(OSError):  # what was still to be written goes nowhere
                stream.close()

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


class RemoteStep:
    """A StepModel in a child. `spec` names it, as in `remote_child.build`; `clock` gives seconds.

    Raises EngineFailure when no child starts or its model does not load. n_starts: children so far.
    """

    def __init__(
        self,
        spec: str,
        call_seconds: float = CALL_SECONDS,
        open_seconds: float = OPEN_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        command: Command = child_command,
    ) -> None:
        self._spec = spec
        self._call_seconds = call_seconds
        self._open_seconds = open_seconds
        self._clock = clock
        self._command = command
        self._child: _Child | None = None
        self._is_closed = False
        self._again_at = 0.0
        self._pause = FIRST_PAUSE_SECONDS
        self._n_good = 0
        self.n_starts = 0
        self.name = spec
        _, self.name, self.limits = self._start()

    @property
    def pid(self) -> int:
        """Of the living child, 0 without one."""
        return self._child.pid if self._child is not None else 0

    def run(self, tokens: IntArray, start: int, parents: IntArray | None = None) -> Ranked:
        arrays = (tokens,) if parents is None else (tokens, parents)
        answer = self._call(Frame(Kind.RUN, (start,), arrays), Kind.RANKED)
        ids, logits, log_sums = answer.arrays
        return Ranked(ids, logits, log_sums)

    def read(self, tokens: IntArray, start: int) -> None:
        self._call(Frame(Kind.READ, (start,), (tokens,)), Kind.DONE)

    def keep(self, cells: IntArray, start: int) -> None:
        self._call(Frame(Kind.KEEP, (start,), (cells,)), Kind.DONE)

    def close(self) -> None:
        self._is_closed = True
        self._end_child()

    def _call(self, call: Frame, expected: Kind) -> Frame:
        answer = self._asked(self._child or self._restarted(call), call, self._call_seconds)
        if answer.kind is Kind.REFUSED:
            raise ValueError(answer.texts[0])
        if answer.kind is Kind.FAILED:
            raise EngineFailure(f"the draft {self.name}", answer.texts[0], _REMEDY)
        if answer.kind is not expected:
            raise self._lost(f"its process answered {answer.kind.name}")
        self._praise()
        return answer

    def _asked(self, child: _Child, call: Frame | None, limit_seconds: float) -> Frame:
        try:
            return child.ask(call, limit_seconds)
        except _Gone as error:
            raise self._lost(str(error)) from error
        except BaseException:  # also Ctrl-C: its answer would be taken for the next one's; raised again
            self._end_child()
            raise

    def _restarted(self, call: Frame) -> _Child:
        reason = ""
        if self._is_closed:
            reason = "it was closed"
        elif call.numbers[0] > 0 or call.kind is Kind.KEEP:
            reason = "its process is new and has read nothing"
        elif self._clock() < self._again_at:
            reason = "its process was lost and pauses"
        if reason:
            raise StepLost(f"the draft {self.name}", reason, _REMEDY)
        child, _, limits = self._start()
        if limits != self.limits:
            raise self._lost(f"its new process says {limits}, not {self.limits}")
        return child

    def _start(self) -> tuple[_Child, str, StepLimits]:
        """Raises EngineFailure, leaving no child."""
        self.n_starts += 1
        try:
            child = self._child = _Child(self._command(self._spec))
        except OSError as error:
            raise EngineFailure(f"cannot start a process for the draft {self.name}", str(error), _REMEDY) from error
        frame = self._asked(child, None, self._open_seconds)
        if frame.kind is Kind.FAILED:
            raise self._lost(frame.texts[0])
        if frame.kind is not Kind.READY or len(frame.numbers) != 6:
            raise self._lost(f"its process began with {frame.kind.name}")
        n_ctx, n_vocab, n_ranked, max_rows, max_chunk, branches = frame.numbers
        return child, frame.texts[0], StepLimits(n_ctx, n_vocab, n_ranked, max_rows, max_chunk, bool(branches))

    def _lost(self, why: str) -> StepLost:
        self._end_child()
        self._n_good = 0
        self._again_at = self._clock() + self._pause
        self._pause = min(2.0 * self._pause, LONGEST_PAUSE_SECONDS)
        return StepLost(f"the draft {self.name}", why, _REMEDY)

    def _praise(self) -> None:
        self._n_good += 1
        if self._n_good == _FORGIVEN:
            self._pause = FIRST_PAUSE_SECONDS

    def _end_child(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end()
