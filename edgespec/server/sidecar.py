"""A server that belongs to another program: it says when it is ready, and never outlives that program.

Contract: one JSON line on stdout, the handshake, and nothing else there. The program holds the other end of standard
input; when that closes, or the parent process is gone, the server ends, by itself or after `GRACE_SECONDS` by force.
Both are watched, since a pipe may have been inherited by a third process, and a parent may be a mere launcher.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from edgespec import __version__

# Changes only when a field of the handshake changes its meaning or goes.
PROTOCOL = 1
# A pass over a large prompt cannot be waited for: whoever started the server next wants its port and its memory.
GRACE_SECONDS = 1.0
POLL_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Handshake:
    """What the parent must know. key: only one that the server drew; else it is the parent's own."""

    host: str
    port: int
    model: str
    key: str = ""

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def line(self) -> str:
        said: dict[str, object] = {
            "edgespec": __version__,
            "protocol": PROTOCOL,
            "pid": os.getpid(),
            "url": self.url,
            "host": self.host,
            "port": self.port,
            "model": self.model,
        }
        return json.dumps({**said, "key": self.key} if self.key else said) + "\n"


class Leash:
    """Two threads that wait for the parent's end. `let_go` is called once, in one of them."""

    def __init__(self, stdin: int, let_go: Callable[[], None], die: Callable[[], None]) -> None:
        """stdin: a file descriptor that is read to its end. die: ends the process at once."""
        self._stdin = stdin
        self._let_go = let_go
        self._die = die
        self._parent_id = os.getppid()
        self._gone = threading.Lock()

    def hold(self) -> None:
        for watch in (self._watch_stdin, self._watch_parent):
            threading.Thread(target=watch, name="edgespec-leash", daemon=True).start()

    def _watch_stdin(self) -> None:
        try:
            while os.read(self._stdin, 4096):
                pass
        except OSError:  # a console that was closed
            pass
        self._end()

    def _watch_parent(self) -> None:
        try:
            parent = psutil.Process(self._parent_id)
            while os.getppid() == self._parent_id and parent.is_running() and not self._gone.locked():
                time.sleep(POLL_SECONDS)
        except psutil.NoSuchProcess:
            pass
        self._end()

    def _end(self) -> None:
        if self._gone.acquire(blocking=False):
            self._let_go()
            time.sleep(GRACE_SECONDS)
            self._die()
