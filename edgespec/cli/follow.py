"""Follows a running answer from the main thread, so that Ctrl-C stops it on every system and cuts no output."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from queue import Empty, SimpleQueue
from types import FrameType

from edgespec.cli.screen import Screen
from edgespec.engine import Answer, CancelToken
from edgespec.errors import EdgeSpecError
from edgespec.events import Completion, Notice, Piece

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


def show(answer: Answer, screen: Screen) -> Completion:
    """Print an answer as it comes, and wait for its end. Raises the engine's errors, and the screen's.

    Notices that come in mid-answer wait for its end, so that they never cut a line.
    """
    waiting: list[Notice] = []
    begun = False
    with closing(follow(answer)) as events:
        for event in events:
            if isinstance(event, Piece):
                begun = True
                screen.piece(event)
            elif begun:
                waiting.append(event)
            else:
                screen.notice(event)
    try:
        completion = answer.completion()
    except EdgeSpecError:
        screen.break_off()
        raise
    screen.end_answer()
    for notice in waiting:
        screen.notice(notice)
    return completion


def wait_for(answer: Answer, screen: Screen) -> Completion:
    """Print nothing of an answer but its notices. Raises the engine's errors."""
    with closing(follow(answer)) as events:
        for event in events:
            if isinstance(event, Notice):
                screen.notice(event)
    return answer.completion()


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
