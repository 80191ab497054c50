from __future__ import annotations

import asyncio
import threading

import pytest

from edgespec.engine.answer import Answer, CancelToken
from edgespec.errors import EngineFailure
from edgespec.events import Completion, Finish, Notice, Piece, Timings, Usage
from tests.engine.toy_engine import DEADLINE_SECONDS, done, said

TIMINGS = Timings(0.0, 0.0, 0.0, 0.0, 0, 0, 0, "", False, (), 0, 0, 0)
WHOLE = Completion("ab", (0, 1), Finish.STOP, Usage(1, 2), TIMINGS, ())
A, B = Piece("a", (0,), ""), Piece("b", (1,), "lookup")
FAILURE = EngineFailure("what", "why", "remedy")


def test_a_token_calls_its_listeners_once() -> None:
    token = CancelToken()
    calls: list[str] = []
    token.on_cancel(lambda: calls.append("early"))
    assert not token.cancelled
    token.cancel()
    token.cancel()
    assert token.cancelled
    token.on_cancel(lambda: calls.append("late"))
    assert calls == ["early", "late"]


def test_a_forgotten_listener_is_not_called() -> None:
    token = CancelToken()
    calls: list[int] = []

    def listener() -> None:
        calls.append(1)

    token.on_cancel(listener)
    token.on_cancel(listener)  # two answers of one engine
    token.forget(listener)
    token.cancel()
    token.forget(listener)
    assert calls == [1]


def test_pieces_and_then_the_whole() -> None:
    answer = Answer(CancelToken())
    for event in (A, B, WHOLE):
        answer.put(event)
    assert list(answer) == [A, B]
    assert (answer.completion(), answer.text) == (WHOLE, "ab")
    assert list(answer) == []


def test_pieces_are_handed_out_by_rounds_and_none_is_lost_when_a_reader_stops_within_one() -> None:
    answer = Answer(CancelToken())
    for event in (A, B):
        answer.put(event)
    answer.flush()
    assert next(iter(answer)) == A
    answer.put(A)
    answer.put(WHOLE)
    assert list(answer) == [B, A]


def test_waiting_for_the_whole_takes_no_pieces_away() -> None:
    answer = Answer(CancelToken())
    for event in (A, B, WHOLE):
        answer.put(event)
    assert answer.completion() is WHOLE
    assert list(answer) == [A, B]


def test_it_says_whether_it_is_over() -> None:
    answer = Answer(CancelToken())
    answer.put(A)
    assert not answer.wait(timeout_seconds=0.0)
    assert not answer.failed
    answer.put(WHOLE)
    assert answer.wait(timeout_seconds=0.0)
    assert not answer.failed


def test_an_error_comes_after_the_pieces_before_it_every_time() -> None:
    answer = Answer(CancelToken())
    answer.put(A)
    answer.put(FAILURE)
    pieces = iter(answer)
    assert next(pieces) is A
    with pytest.raises(EngineFailure) as caught:
        next(pieces)
    assert caught.value is FAILURE
    with pytest.raises(EngineFailure):
        list(answer)
    with pytest.raises(EngineFailure):
        answer.completion()
    assert answer.failed


def test_every_thread_that_waits_is_woken() -> None:
    answer = Answer(CancelToken())
    ended: list[str] = []

    def iterate() -> None:
        ended.append("".join(piece.text for piece in answer))

    def wait() -> None:
        ended.append(answer.completion().text)

    threads = [threading.Thread(target=act) for act in (iterate, iterate, wait, wait)]
    for thread in threads:
        thread.start()
    for event in (A, B, WHOLE):
        answer.put(event)
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
    # Two who iterate share the pieces; who waits has them all.
    assert ended.count("ab") >= 2
    assert len("".join(ended)) == 3 * len("ab")


def test_notices_are_kept_apart() -> None:
    answer = Answer(CancelToken())
    notice = Notice("code", "message")
    answer.put(notice)
    assert answer.notices == (notice,)
    answer.put(A)
    answer.put(WHOLE)
    assert list(answer) == [A]


def test_a_callback_sees_every_piece_and_may_stop_the_answer() -> None:
    seen: list[Piece] = []

    def take(piece: Piece) -> bool:
        seen.append(piece)
        return piece is not B

    answer = Answer(CancelToken(), take)
    answer.put(A)
    assert not answer.cancel_token.cancelled
    answer.put(B)
    assert answer.cancel_token.cancelled
    answer.put(A)  # what had been held back
    answer.put(WHOLE)
    assert seen == [A, B]
    assert said(answer) == "aba"


@pytest.mark.parametrize("value", [None, 0, "", True])
def test_only_false_stops_the_answer(value: object) -> None:
    answer = Answer(CancelToken(), {A: value}.get)
    answer.put(A)
    assert not answer.cancel_token.cancelled


def test_what_a_callback_raises_is_the_callers() -> None:
    answer = Answer(CancelToken(), lambda piece: piece.text.no_such_thing)  # type: ignore[attr-defined]
    answer.put(A)
    assert answer.cancel_token.cancelled
    answer.put(B)
    answer.put(WHOLE)
    with pytest.raises(AttributeError, match="no_such_thing"):
        done(answer)
    with pytest.raises(AttributeError, match="no_such_thing"):
        said(answer)
    assert answer.failed


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), ValueError("no")])
def test_whatever_the_callers_code_raises_ends_its_answer_only(error: BaseException) -> None:
    def leave() -> None:
        raise error

    answer = Answer(CancelToken())
    assert answer.call(lambda: 5) == 5
    assert not answer.cancel_token.cancelled
    answer.call(leave)
    assert answer.cancel_token.cancelled
    answer.put(WHOLE)
    with pytest.raises(type(error)):
        answer.completion()


def test_leaving_the_block_cancels_what_still_runs_and_spares_the_token_otherwise() -> None:
    token = CancelToken()
    with Answer(token) as answer:
        answer.put(WHOLE)
    assert not token.cancelled
    with Answer(token):
        pass
    assert token.cancelled


# -- without waiting ----------------------------------------------------------------------------------------------


def test_pieces_are_taken_without_waiting_for_more() -> None:
    answer = Answer(CancelToken())
    assert answer.take() == []
    answer.put(A)
    assert answer.take() == []  # until the round is over
    answer.flush()
    answer.put(B)
    answer.flush()
    assert answer.take() == [A, B]
    answer.put(A)
    answer.put(WHOLE)
    assert answer.take() == [A]
    assert answer.take() is None
    assert list(answer) == []


def test_what_an_iterator_left_is_taken_first() -> None:
    answer = Answer(CancelToken())
    answer.put(A)
    answer.put(B)
    answer.put(WHOLE)
    assert next(iter(answer)) == A
    assert answer.take() == [B]


def test_news_are_told_at_once_and_with_every_round_and_with_the_end() -> None:
    answer = Answer(CancelToken())
    told: list[int] = []
    answer.listen(lambda: told.append(1))
    assert len(told) == 1
    answer.put(A)
    answer.put(B)
    assert len(told) == 1
    answer.flush()
    assert len(told) == 2
    answer.flush()  # a round without text
    assert len(told) == 2
    answer.put(FAILURE)
    assert len(told) == 3


def test_several_are_told_news() -> None:
    answer = Answer(CancelToken())
    told: list[str] = []
    answer.listen(lambda: told.append("one"))
    answer.listen(lambda: told.append("other"))
    answer.put(WHOLE)
    assert told == ["one", "other", "one", "other"]


def test_async_for_gives_the_pieces_and_raises_at_the_end() -> None:
    async def read(answer: Answer) -> list[Piece]:
        return [piece async for piece in answer]

    answer = Answer(CancelToken())
    for event in (A, B, WHOLE):
        answer.put(event)
    assert asyncio.run(read(answer)) == [A, B]
    assert asyncio.run(read(answer)) == []
    failed = Answer(CancelToken())
    failed.put(FAILURE)
    with pytest.raises(EngineFailure):
        asyncio.run(read(failed))
