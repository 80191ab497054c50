"""A peer that is a Python library in a child process, so that a crash or a hang ends nothing else."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tools.peer import Answer, PeerFailed, cpu_seconds, last_line
from tools.peer_child import Setup

CHILD = Path(__file__).with_name("peer_child.py")
# A killed process is gone within moments.
_END_SECONDS = 10.0


@dataclass(slots=True)
class _Running:
    process: subprocess.Popen[str]
    log: IO[bytes]
    pumping: threading.Thread = field(init=False)
    lines: queue.Queue[str | None] = field(default_factory=queue.Queue)

    def __post_init__(self) -> None:
        self.pumping = threading.Thread(target=self._pump, daemon=True)
        self.pumping.start()

    def _pump(self) -> None:
        """Lines of its stdout into the queue, then None. In a thread of its own: pipes have no time limit."""
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.lines.put(line)
        self.lines.put(None)


class ProcessPeer:
    """`patience_seconds` is for every answer, and for loading."""

    def __init__(self, name: str, setup: Setup, patience_seconds: float) -> None:
        self.name = name
        self.setup = setup
        self.patience_seconds = patience_seconds
        self._running: _Running | None = None

    def start(self) -> None:
        self.close()
        log = tempfile.TemporaryFile()  # noqa: SIM115 (closed in close)
        process = subprocess.Popen(
            [sys.executable, str(CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, "GGML_NO_BACKTRACE": "1"},  # an abort would start a debugger
            encoding="utf-8",
        )
        self._running = _Running(process, log)
        self._exchange(self.setup.to_json())

    def ask(self, prompt: list[int], max_tokens: int) -> Answer:
        line = self._exchange(json.dumps({"prompt": prompt, "max_tokens": max_tokens}))
        try:
            return Answer.from_json(line)
        except (ValueError, KeyError, TypeError) as error:
            raise PeerFailed(self.name, f"it answered {line[:80]!r}", "run it alone with --peers") from error

    def cpu_seconds(self) -> float:
        return cpu_seconds(self._running.process.pid) if self._running else 0.0

    def close(self) -> None:
        if self._running is None:
            return
        running, self._running = self._running, None
        running.process.kill()
        with suppress(subprocess.TimeoutExpired):  # stuck in the kernel; the others must be closed all the same
            running.process.wait(_END_SECONDS)
        running.pumping.join(_END_SECONDS)
        for stream in (running.process.stdin, running.log):
            try:
                if stream is not None:
                    stream.close()
            except OSError:  # a broken pipe: what was to be written has no reader any more
                continue

    def _exchange(self, line: str) -> str:
        if self._running is None:
            raise PeerFailed(self.name, "it does not run", "start it")
        try:
            assert self._running.process.stdin is not None
            self._running.process.stdin.write(line + "\n")
            self._running.process.stdin.flush()
            reply = self._running.lines.get(timeout=self.patience_seconds)
        except queue.Empty as error:
            raise PeerFailed(self.name, f"no answer in {self.patience_seconds:g} s", "raise --patience") from error
        except OSError:
            reply = None
        if reply is None:
            code = self._running.process.wait(_END_SECONDS)
            why = f"it ended with code {code}: {last_line(self._running.log)}"
            raise PeerFailed(self.name, why, "run it alone with --peers")
        return reply
