"""One answer on its way: an iterator over its pieces, and the whole once it is there. Safe to use from any thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from queue import Empty, SimpleQueue

from edgespec.errors import EdgeSpecError
from edgespec.events import Completion, Notice, Piece, RoundReport


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


# Called in the engine's thread, so it must not wait for an answer. False stops the answer; anything else lets it go on.
PieceCallback = Callable[[Piece], object]
# The same, after every round; what it returns does not matter.
RoundCallback = Callable[[RoundReport], object]


class Answer:
    """Iterate for pieces as they come, with `for` or `async for`; `completion()` waits for the whole. An error of the
    engine is raised by both, as is what the caller's own callback raised. Waiting takes no piece away from a reader.
    """

    def __init__(self, cancel: CancelToken, on_piece: PieceCallback | None = None) -> None:
        self.cancel_token = cancel
        self._on_piece = on_piece
        self._listeners: list[Callable[[], None]] = []
        self._ready: list[Piece] = []
        self._left: deque[Piece] = deque()  # taken out, not yet given: whoever iterates next begins with them
        self._pieces: SimpleQueue[list[Piece] | None] = SimpleQueue()  # those of one round; None: there are no more
        self._notices: list[Notice] = []
        self._completion: Completion | None = None
        self._error: BaseException | None = None
        self._over = threading.Event()

    def __iter__(self) -> Iterator[Piece]:
        yield from self._take_left()
        while (pieces := self._pieces.get()) is not None:
            self._left.extend(pieces)
            yield from self._take_left()
        self._pieces.put(None)  # for whoever else iterates
        if self._error is not None:
            raise self._error

    def __aiter__(self) -> AsyncIterator[Piece]:
        """The same for asyncio programs: waiting leaves the running loop free for others."""
        from edgespec.engine.streaming import AsyncAnswer  # which is made of this class

        return AsyncAnswer(self).__aiter__()

    def _take_left(self) -> Iterator[Piece]:
        while True:
            try:
                piece = self._left.popleft()
            except IndexError:  # asking first would not do: another thread may iterate too
                return
            yield piece

    def listen(self, on_news: Callable[[], None]) -> None:
        """Call `on_news` now, and in the engine's thread whenever pieces or the end have come; for one that cannot
        wait.
        """
        self._listeners.append(on_news)
        on_news()

    def take(self) -> list[Piece] | None:
        """The pieces that have come, without waiting; None once there will be no more."""
        taken = list(self._take_left())
        while True:
            try:
                pieces = self._pieces.get_nowait()
            except Empty:
                return taken
            if pieces is None:
                self._pieces.put(None)  # for whoever else reads
                return taken or None
            taken += pieces

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if not self._over.is_set():  # the token may be meant for further answers
            self.cancel()

    def cancel(self) -> None:
        self.cancel_token.cancel()

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Until the answer is over, in whatever way; False if it is not over in time."""
        return self._over.wait(timeout_seconds)

    @property
    def failed(self) -> bool:
        """It is over, and `completion` raises."""
        return self._over.is_set() and self._error is not None

    def completion(self) -> Completion:
        self.wait()
        if self._completion is None or self._error is not None:
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
        """Called by the engine's thread; a completion or an error is the last event. A piece waits for `flush`."""
        if isinstance(event, Piece):
            self._ready.append(event)
            if self._on_piece is not None:
                self._call_back(event)
        elif isinstance(event, Notice):
            self._notices.append(event)
        else:
            self._end(event)

    def flush(self) -> None:
        """Hand out the pieces put so far, together: waking a reader for each would cost more than making them."""
        if self._ready:
            self._pieces.put(self._ready)
            self._ready = []
            if self._listeners:
                self._tell()

    def _tell(self) -> None:
        for listener in list(self._listeners):
            listener()

    def _call_back(self, piece: Piece) -> None:
        if self._on_piece is not None and self.call(partial(self._on_piece, piece)) is False:
            self._on_piece = None
            self.cancel()

    def call(self, code: Callable[[], object]) -> object:
        """What the caller's own code says; False if it raises, which ends this answer, never those of others."""
        try:
            return code()
        except BaseException as error:  # `sys.exit` there must not end the engine's thread either
            self._error = self._error or error
            self.cancel()
            return False

    def _end(self, event: Completion | EdgeSpecError) -> None:
        if isinstance(event, Completion):
            self._completion = event
        else:
            self._error = self._error or event
        self.flush()
        self._over.set()
        self._pieces.put(None)
        self._tell()
