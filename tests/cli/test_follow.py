from __future__ import annotations

import signal
import threading

import pytest

from edgespec.cli.follow import ctrl_c_cancels, follow, show, wait_for
from edgespec.cli.session import Session
from edgespec.engine import Answer, CancelToken, GenerateOptions
from edgespec.errors import EngineFailure
from edgespec.events import Completion, Finish, Notice, Piece

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


def ready(*events: Piece | Notice | Completion | EngineFailure) -> Answer:
    """An answer whose events have all come already."""
    answer = Answer(CancelToken())
    for event in events:
        answer.put(event)
    return answer


def test_notices_in_mid_answer_wait_for_its_end(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    done = session.model.engine.complete("the river", GenerateOptions(max_tokens=1)).completion()
    early, late = Notice("a", "early"), Notice("b", "late")
    answer = ready(early, Piece("one", (1,), ""), late, Piece(" two", (2,), ""), done)
    assert show(answer, session.screen) is done
    assert capsys.readouterr() == ("one two\n", "early\nlate\n")


def test_an_answer_that_fails_ends_its_line_and_raises(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    failure = EngineFailure("a", "b", "c")
    with pytest.raises(EngineFailure):
        show(ready(failure), session.screen)
    assert capsys.readouterr().out == ""
    with pytest.raises(EngineFailure):
        show(ready(Piece("half", (1,), ""), failure), session.screen)
    assert capsys.readouterr().out == "half\n"


def test_waiting_prints_the_notices_only(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    done = session.model.engine.complete("the river", GenerateOptions(max_tokens=1)).completion()
    assert wait_for(ready(Piece("one", (1,), ""), Notice("a", "note"), done), session.screen) is done
    assert capsys.readouterr() == ("", "note\n")


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
