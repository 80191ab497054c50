from __future__ import annotations

import signal
import threading

from edgespec.cli.follow import ctrl_c_cancels, follow
from edgespec.cli.session import Session
from edgespec.engine import Answer, CancelToken, GenerateOptions
from edgespec.errors import EngineFailure
from edgespec.events import Finish, Notice, Piece

LONG = GenerateOptions(max_tokens=400)


def handed(answer: Answer) -> list[Piece | Notice]:
    return list(follow(answer))


def test_the_pieces_are_the_answer(session: Session) -> None:
    answer = session.model.engine.complete("the river", LONG)
    pieces = handed(answer)
    assert "".join(piece.text for piece in pieces if isinstance(piece, Piece)) == answer.completion().text
    assert len(pieces) > 10


def test_ctrl_c_ends_the_answer_and_raises_nothing(session: Session) -> None:
    answer = session.model.engine.complete("the river", LONG)
    text = ""
    for event in follow(answer):
        if isinstance(event, Piece):
            text += event.text
            signal.raise_signal(signal.SIGINT)  # again and again: more of it changes nothing
    completion = answer.completion()
    assert completion.finish is Finish.CANCELLED
    assert completion.text == text
    assert 0 < completion.usage.completion_tokens < 400


def test_ctrl_c_is_everybody_else_s_again_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT)
    with ctrl_c_cancels(CancelToken()):
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_a_cancel_reaches_the_token() -> None:
    token, cancelled = CancelToken(), threading.Event()
    token.on_cancel(cancelled.set)
    with ctrl_c_cancels(token):
        signal.raise_signal(signal.SIGINT)
        assert cancelled.wait(timeout=60)


def test_another_thread_can_follow_too(session: Session) -> None:
    answer = session.model.engine.complete("the river", GenerateOptions(max_tokens=5))
    got: list[Piece | Notice] = []
    thread = threading.Thread(target=lambda: got.extend(follow(answer)))
    thread.start()
    thread.join()
    assert got


def test_notices_come_in_order_and_errors_wait_for_the_completion() -> None:
    answer = Answer(CancelToken())
    first, second = Notice("a", "first"), Notice("b", "second")
    answer.put(first)
    answer.put(Piece("x", (1,), ""))
    answer.put(second)
    answer.put(EngineFailure("a", "b", "c"))
    events = handed(answer)
    assert [event for event in events if isinstance(event, Notice)] == [first, second]
    assert [event for event in events if isinstance(event, Piece)] == [Piece("x", (1,), "")]
