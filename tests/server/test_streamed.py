"""Answers as events over a channel that a test holds: what is sent when, and what if nobody takes it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from starlette.types import Message

from edgespec.choice import DraftChoice
from edgespec.engine import Answer, CancelToken, GenerateOptions
from edgespec.engine.streaming import AsyncAnswer
from edgespec.errors import EngineFailure
from edgespec.events import Finish, Piece, RoundReport, TokenScore
from edgespec.server import streamed
from edgespec.server.bodies import DONE, KEEP_ALIVE, Reply
from edgespec.server.desk import ClientLeft, Ticket
from edgespec.server.reading import Read
from edgespec.server.refusals import Refusal
from edgespec.server.rounds import RoundFeed
from edgespec.server.scores import ScoreWriter, Spelling
from edgespec.server.streamed import EventStream
from tests.server.toy_completion import completion_of
from tests.text.toy_vocab import ToyVocabulary

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
    act: Callable[[Answer, Channel, Awaitable[None]], Awaitable[None]],
    prediction: tuple[int, ...] = (),
    scores: ScoreWriter | None = None,
) -> Channel:
    channel = Channel()

    async def run() -> None:
        answer = Answer(CancelToken())
        ticket = Ticket(AsyncAnswer(answer), Read([1], GenerateOptions(), prediction), lambda: False)
        stream = EventStream(
            Reply("id", 1, "toy", is_chat=False), include_usage=True, stalled_seconds=10.0, scores=scores
        )
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


def test_scores_go_with_their_pieces() -> None:
    async def act(answer: Answer, _: Channel, sending: Awaitable[None]) -> None:
        answer.put(Piece("a", (97,), "", (TokenScore(97, -0.5),)))
        answer.flush()
        answer.put(Piece("b", (98,), "", (TokenScore(98, -0.25),)))
        answer.put(completion_of("ab"))
        await sending

    body = streaming(act, scores=ScoreWriter(Spelling(ToyVocabulary()), is_chat=False)).body
    assert body.index(b'"token_logprobs":[-0.5') < body.index(b"-0.25")
    assert body.count(b'"logprobs":null') == 1  # the last event has no tokens
    assert b'"token_logprobs"' not in streaming(act).body


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


def test_rounds_are_told_behind_their_pieces_and_as_a_whole_at_the_end() -> None:
    feed = RoundFeed(ToyVocabulary(), DraftChoice.OFF, lambda: None)
    channel = Channel()

    async def run() -> None:
        answer = Answer(CancelToken())
        ticket = Ticket(AsyncAnswer(answer), Read([1], GenerateOptions(), ()), lambda: False, feed)
        sending = asyncio.ensure_future(
            EventStream(Reply("id", 1, "toy", False), False, 10.0).send(ticket, channel.send)
        )
        for n, piece in enumerate((A, B), 1):
            feed.add(RoundReport(1, 0, 0, 0, piece.token_ids, ("",), 0.0, 0.1, 0.1))
            answer.put(piece)
            answer.flush()
            while b'"n_passes":%d' % n not in channel.body:
                await asyncio.sleep(0.001)
        answer.put(completion_of("ab"))
        await sending

    asyncio.run(run())
    texts = [block.partition(b'"text":')[2][:3] for block in channel.body.split(b"\n\n") if b'"text":' in block]
    assert texts == [b'"a"', b'"",', b'"b"', b'"",', b'"",']
    assert channel.body.count(b'"rounds":{') == 3
    assert channel.body.index(b'"why":"Drafting is switched off."') > channel.body.index(b'"finish_reason":"stop"')


def test_the_text_of_a_call_is_held_back_and_the_connection_kept_alive() -> None:
    channel = Channel()

    async def run() -> None:
        answer = Answer(CancelToken())
        read = Read([1], GenerateOptions(), (), frozenset({"f"}))
        ticket = Ticket(AsyncAnswer(answer), read, lambda: False)
        stream = EventStream(Reply("id", 1, "toy", True), False, 10.0)
        sending = asyncio.ensure_future(stream.send(ticket, channel.send))
        text = 'Well. <tool_call>{"name": "f", "arguments": {}}</tool_call>'
        for place, character in enumerate(text):
            answer.put(Piece(character, (place,), ""))
            answer.flush()
            await asyncio.sleep(0)
        answer.put(completion_of(text))
        await sending

    asyncio.run(run())
    assert KEEP_ALIVE in channel.body
    assert b"<" not in channel.body
    assert b'"tool_calls":[{"index":0,"id":"call_' in channel.body
    assert b'"finish_reason":"tool_calls"' in channel.body
