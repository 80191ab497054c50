"""One answer on its way: an iterator over its pieces, and the whole once it is there. Safe to use from any thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue

from edgespec.errors import EdgeSpecError
from edgespec.events import Completion, Notice, Piece


class CancelToken:
    """Stops the answers it was given to, from any thread, also while the prompt is read. Cancelling twice is
    harmless.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._listeners: list[Callable[[], None]] = []

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()

    def on_cancel(self, listener: Callable[[], None]) -> None:
        """Call `listener` once when cancelled; at once if that has happened already."""
        with self._lock:
            if not self._cancelled:
                self._listeners.append(listener)
                return
        listener()

    def forget(self, listener: Callable[[], None]) -> None:
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)


# False stops the answer; anything else lets it go on.
PieceCallback = Callable[[Piece], object]


class Answer:
    """Iterate for pieces as they come; `completion()` waits for the rest. An error of the engine is raised here."""

    def __init__(self, cancel: CancelToken, on_piece: PieceCallback | None = None) -> None:
        self.cancel_token = cancel
        self._on_piece = on_piece
        self._queue: SimpleQueue[Piece | Notice | Completion | EdgeSpecError] = SimpleQueue()
        self._notices: list[Notice] = []
        self._completion: Completion | None = None
        self._error: EdgeSpecError | None = None

    def __iter__(self) -> Iterator[Piece]:
        while (piece := self._next()) is not None:
            yield piece

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.cancel()

    def cancel(self) -> None:
        self.cancel_token.cancel()

    def completion(self) -> Completion:
        """The whole answer; pieces not yet iterated are skipped, since it holds their text."""
        while self._next() is not None:
            pass
        if self._completion is None:
            raise self._error or RuntimeError("an answer ended without a completion")
        return self._completion

    @property
    def text(self) -> str:
        return self.completion().text

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Lines for the user that came so far."""
        return tuple(self._notices)

    # -- the engine's side --------------------------------------------------------------------------------------

    def put(self, event: Piece | Notice | Completion | EdgeSpecError) -> None:
        """Called by the engine's thread."""
        if isinstance(event, Piece) and self._on_piece is not None and self._on_piece(event) is False:
            self.cancel()
        self._queue.put(event)

    def _next(self) -> Piece | None:
        while self._completion is None and self._error is None:
            event = self._queue.get()
            if isinstance(event, Piece):
                return event
            if isinstance(event, Notice):
                self._notices.append(event)
            elif isinstance(event, Completion):
                self._completion = event
            else:
                self._error = event
        if self._error is not None:
            raise self._error
        return None
