"""The library as it comes, beside edgespec in a process of its own: opened, asked, watched, ended.

Why its own process: each copy of llama.cpp brings a team of OpenMP threads, and two teams in one process are more
threads than there are cores. GNU's OpenMP counts that within a process and then sends waiting threads to sleep early
instead of spinning, so every pass pays for waking them: plain decoding lost 30 % of its speed while this arm was open.
Two processes do not count each other's threads, and the arms take turns, so neither ever competes.

Knows how a child fails, not how it answers.
"""

from __future__ import annotations

import os
import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from edgespec.backend import machine
from edgespec.backend.probe import proven_settings
from edgespec.backend.settings import LlamaSettings
from edgespec.bench.arms import LibraryArm
from edgespec.bench.library_child import Question, Reply
from edgespec.config import cache_dir
from edgespec.engine import Engine
from edgespec.engine.choosing import cache_shape
from edgespec.engine.core import end_tokens
from edgespec.errors import EngineFailure
from edgespec.events import Notice
from edgespec.library.card import ModelCard
from edgespec.library.memory import check_memory
from edgespec.processes import HOME, child_command
from edgespec.records import Records

# A model that does not fit into memory gives a token in seconds; a child that needs longer than this is stuck.
PATIENCE_SECONDS, PATIENCE_SECONDS_PER_TOKEN = 600.0, 5.0
# The main thread looks this often for Ctrl-C while it waits; waiting without end cannot be interrupted on Windows.
_POLL_SECONDS = 0.1


def library_command(path: Path, settings: LlamaSettings) -> list[str]:
    return child_command("edgespec.bench.library_child", str(path.absolute()), settings.to_json())


class LibraryProcess:
    """One child with the model open once `wait_until_open` has returned. After an error it is of no use: close it."""

    def __init__(self, command: Sequence[str]) -> None:
        self._words = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as the child, closed with it
        self._process = subprocess.Popen(
            command,
            env={**os.environ, "GGML_NO_BACKTRACE": "1"},  # else an abort starts a debugger
            cwd=HOME,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
        )
        self._said: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def wait_until_open(self, patience_seconds: float = PATIENCE_SECONDS) -> None:
        """Raises EngineFailure."""
        self._reply(patience_seconds)

    def ask(self, question: Question) -> Reply:
        """Waits for the whole answer; Ctrl-C raises KeyboardInterrupt. Raises EngineFailure."""
        assert self._process.stdin is not None
        with suppress(OSError):  # a child that is gone is noticed when its reply is awaited
            self._process.stdin.write(question.to_line().encode())
            self._process.stdin.flush()
        n_tokens = len(question.tokens) + question.max_tokens
        return self._reply(PATIENCE_SECONDS + PATIENCE_SECONDS_PER_TOKEN * n_tokens)

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

    def _reply(self, patience_seconds: float) -> Reply:
        line = self._line(patience_seconds)
        if not line:
            raise _failed(f"died: {self._last_words()}")
        try:
            reply = Reply.from_line(line.decode("utf-8", "replace"))
        except ValueError as error:
            raise _failed(f"spoke nonsense: {error}") from error
        if reply.refused:
            raise _failed(f"gave up: {reply.refused}")
        return reply

    def _line(self, patience_seconds: float) -> bytes:
        began = time.monotonic()
        while True:
            with suppress(queue.Empty):
                return self._said.get(timeout=_POLL_SECONDS)
            if time.monotonic() - began > patience_seconds:
                raise _failed(f"hung: no answer within {patience_seconds:.0f} s")

    def _last_words(self) -> str:
        code = self._process.wait()
        self._words.seek(0)
        lines = self._words.read().decode("utf-8", "replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), f"it left with code {code}")


@contextmanager
def library_arm(
    engine: Engine, card: ModelCard | None, max_tokens: int, notify: Callable[[Notice], None]
) -> Iterator[LibraryArm]:
    """A second copy of the engine's model with the library's own settings. Its answers know no stop strings.

    Raises NotEnoughMemory when there is no room for a copy, EngineFailure when these settings end a process here: that
    is tried first and remembered, so that it is said before anything is measured.
    """
    from edgespec.backend.llama.library import default_settings
    from edgespec.backend.llama.native import library_fingerprint

    path, wanted = engine.header.path, default_settings(engine.settings.n_ctx)
    check_memory(engine.header, wanted.n_ctx, cache_shape(engine.header, wanted), machine.available_memory_bytes())
    records = Records(cache_dir() / "trials.json")
    if proven_settings(path, wanted, library_fingerprint(), records, notify) != wanted:
        raise EngineFailure("--baseline defaults", "the library's defaults end the process here", "leave it out")
    with closing(LibraryProcess(library_command(path, wanted))) as library:
        library.wait_until_open()
        yield LibraryArm(library.ask, max_tokens, end_tokens(engine.vocab, card))


def _failed(how: str) -> EngineFailure:
    return EngineFailure("--baseline defaults", f"the library's process {how}", "leave it out")
