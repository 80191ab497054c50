"""Answers as events over a channel that a test holds: what is sent when, and what if nobody takes it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from starlette.types import Message

from edgespec.engine import Answer, CancelToken, GenerateOptions
from edgespec.engine.streaming import AsyncAnswer
from edgespec.errors import EngineFailure
from edgespec.events import Finish, Piece
from edgespec.server import streamed
from edgespec.server.bodies import DONE, KEEP_ALIVE, Reply
from edgespec.server.desk import ClientLeft, Ticket
from edgespec.server.reading import Read
from edgespec.server.refusals import Refusal
from edgespec.server.streamed import EventStream
from tests.server.toy_completion import completion_of

A, B = Piece("a", (0,), ""), Piece("b", (1,), "")
FAILURE = EngineFailure("a pass", "it broke", "try again")


class Channel:
    """What was sent, in order."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def send(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages)


def streaming(
    act: Callable[[Answer, Channel, Awaitable[None]], Awaitable[None]], prediction: tuple[int, ...] = ()
) -> Channel:
    channel = Channel()

    async def run() -> None:
        answer = Answer(CancelToken())
        ticket = Ticket(AsyncAnswer(answer), Read([1], GenerateOptions(), prediction), lambda: False)
        stream = EventStream(Reply("id", 1, "toy", is_chat=False), include_usage=True, stalled_seconds=10.0)
        await act(answer, channel, stream.send(ticket, channel.send))

    asyncio.run(run())
    return channel


def test_pieces_come_as_events_and_the_end_is_marked() -> None:
    async def act(answer: Answer, _: Channel, sending: Awaitable[None]) -> None:
        for event in (A, B, completion_of("ab")):
            answer.put(event)
        await sending

    channel = streaming(act)
    assert channel.messages[0]["status"] == 200
    assert (b"content-type", b"text/event-stream; charset=utf-8") in channel.messages[0]["headers"]
    assert channel.body.endswith(DONE)
    assert channel.body.count(b"data: ") == 4
    assert [message.get("more_body") for message in channel.messages[1:]] == [True, True, False]


def test_an_error_before_the_first_text_is_raised_and_a_later_one_is_an_event() -> None:
    async def early(answer: Answer, channel: Channel, sending: Awaitable[None]) -> None:
        answer.put(FAILURE)
        with pytest.raises(EngineFailure):
            await sending
        assert channel.messages == []

    async def late(answer: Answer, _: Channel, sending: Awaitable[None]) -> None:
        answer.put(A)
        answer.put(FAILURE)
        await sending

    streaming(early)
    assert streaming(late).body.split(b"\n\n")[-2].startswith(b'data: {"error"')


def test_silence_is_filled_with_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed, "STATUS_SECONDS", 0.001)
    monkeypatch.setattr(streamed, "KEEP_ALIVE_SECONDS", 0.001)

    async def act(answer: Answer, channel: Channel, sending: Awaitable[None]) -> None:
        task = asyncio.ensure_future(sending)
        while channel.body.count(KEEP_ALIVE) < 3:
            await asyncio.sleep(0.001)
        answer.put(A)
        answer.put(completion_of("a"))
        await task

    assert streaming(act).body.endswith(DONE)


def test_a_client_that_takes_nothing_is_given_up() -> None:
    async def never(_: Message) -> None:
        await asyncio.Event().wait()

    async def run() -> None:
        answer = Answer(CancelToken())
        ticket = Ticket(AsyncAnswer(answer), Read([1], GenerateOptions(), ()), lambda: False)
        answer.put(A)
        answer.flush()
        with pytest.raises(asyncio.TimeoutError):
            await EventStream(Reply("id", 1, "toy", True), False, stalled_seconds=0.01).send(ticket, never)

    asyncio.run(run())


@pytest.mark.parametrize(("is_closing", "error"), [(True, Refusal), (False, ClientLeft)])
def test_an_answer_that_was_cut_off_is_no_answer(is_closing: bool, error: type[Exception]) -> None:
    async def run() -> None:
        answer = Answer(CancelToken())
        ticket = Ticket(AsyncAnswer(answer), Read([1], GenerateOptions(), ()), lambda: is_closing)
        answer.put(replace(completion_of("ab"), finish=Finish.CANCELLED))
        channel = Channel()
        with pytest.raises(error):
            await EventStream(Reply("id", 1, "toy", True), False, 10.0).send(ticket, channel.send)
        assert channel.messages == []

    asyncio.run(run())


def test_a_prediction_is_compared_with_what_was_said() -> None:
    async def act(answer: Answer, _: Channel, sending: Awaitable[None]) -> None:
        answer.put(A)
        answer.put(completion_of("abc"))
        await sending

    body = streaming(act, prediction=(0, 9, 2)).body
    assert b'"accepted_prediction_tokens":2,"rejected_prediction_tokens":1' in body
