"""What reaches the worker's thread from others, and whether nothing does at the moment. Knows no request's meaning."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from edgespec.engine.job import Request
from edgespec.errors import EngineFailure
from edgespec.spec.ports import SequenceId

# A request, a sequence to be forgotten, something to do in between, or the end.
Message = Request | SequenceId | Callable[[], None] | None


class Inbox:
    """Taken from by one thread. quiet: set while that thread waits for a message and none has come."""

    def __init__(self) -> None:
        self.quiet = threading.Event()
        self._messages: SimpleQueue[Message] = SimpleQueue()
        self._lock = threading.Lock()  # no request enters once it is closed, and none comes unseen by `quiet`
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    def submit(self, request: Request) -> None:
        """Raises EngineFailure once it is closed."""
        with self._lock:
            if self._closed:
                raise EngineFailure("cannot answer", "the engine has been closed", "open it again")
            self.quiet.clear()
            self._messages.put(request)

    def put(self, message: SequenceId | Callable[[], None]) -> None:
        self._messages.put(message)

    def close(self) -> None:
        """Closing twice is harmless."""
        with self._lock:
            self._closed = True
            self._messages.put(None)

    def empty(self) -> bool:
        return self._messages.empty()

    def take(self) -> Message:
        """Waits for a message."""
        with self._lock:
            if self._messages.empty() and not self._closed:
                self.quiet.set()
        message = self._messages.get()
        self.quiet.clear()
        return message
