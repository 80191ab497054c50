"""Follows a running answer from the main thread, so that Ctrl-C stops it on every system and cuts no output."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from types import FrameType

from edgespec.engine import Answer, CancelToken
from edgespec.errors import EdgeSpecError
from edgespec.events import Notice, Piece

# A wait without end cannot be interrupted on Windows, and a notice may come long before the first piece.
POLL_SECONDS = 0.1


def follow(answer: Answer) -> Generator[Piece | Notice, None, None]:
    """The answer's pieces and notices as they come. Ctrl-C cancels the answer, which then ends as usual.

    Errors of the engine are not raised here but by `answer.completion()`.
    """
    pieces: SimpleQueue[Piece | None] = SimpleQueue()
    threading.Thread(target=_forward, args=(answer, pieces), name="edgespec-follow", daemon=True).start()
    n_seen = 0
    with ctrl_c_cancels(answer.cancel_token):
        while True:
            piece = _next(pieces)
            for notice in answer.notices[n_seen:]:
                n_seen += 1
                yield notice
            if piece is None:
                return
            if piece.text:
                yield piece


@contextmanager
def ctrl_c_cancels(token: CancelToken) -> Iterator[None]:
    """While inside, Ctrl-C cancels instead of raising KeyboardInterrupt; pressing it again changes nothing."""

    def cancel(_signal: int, _frame: FrameType | None) -> None:
        # In a thread of its own: the main thread may hold the token's lock at this very moment.
        threading.Thread(target=token.cancel, name="edgespec-cancel", daemon=True).start()

    if threading.current_thread() is not threading.main_thread():  # only the main thread gets signals
        yield
        return
    previous = signal.signal(signal.SIGINT, cancel)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


_NOTHING = Piece("", (), "")


def _next(pieces: SimpleQueue[Piece | None]) -> Piece | None:
    """The next piece, an empty one when none came for a while, None at the end."""
    try:
        return pieces.get(timeout=POLL_SECONDS)
    except Empty:
        return _NOTHING


def _forward(answer: Answer, pieces: SimpleQueue[Piece | None]) -> None:
    try:
        for piece in answer:
            pieces.put(piece)
    except EdgeSpecError:
        return  # `completion` raises it again, in the thread that asked
    finally:
        pieces.put(None)
