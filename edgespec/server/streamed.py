"""An answer as server-sent events, over a bare ASGI channel.

Contract: an error before the first text is raised, so that it gets a status of its own; a later one is an event. Other
than a response class this takes its place from whoever calls it, who must cancel the answer when it raises.
"""

from __future__ import annotations

import asyncio

from starlette.types import Message, Send

from edgespec.errors import EdgeSpecError
from edgespec.events import Completion, Piece
from edgespec.server.bodies import KEEP_ALIVE, Predicted, Reply
from edgespec.server.desk import Ticket
from edgespec.server.predicted import n_came_true
from edgespec.server.refusals import error_body, refusal_of
from edgespec.server.scores import ScoreWriter
from edgespec.server.tools import CallScreen

# A status is waited for so long at most: a long prompt must not look like a dead server.
STATUS_SECONDS = 2.0
# Proxies cut connections that are silent for a minute, some after half of one.
KEEP_ALIVE_SECONDS = 15.0
HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",  # else nginx collects events before it passes them on
}


class EventStream:
    """stalled_seconds: how long a client may take nothing off its connection. Raises TimeoutError then. scores: writes
    log probabilities, if they were asked for.
    """

    def __init__(
        self, reply: Reply, include_usage: bool, stalled_seconds: float, scores: ScoreWriter | None = None
    ) -> None:
        self._reply = reply
        self._include_usage = include_usage
        self._stalled_seconds = stalled_seconds
        self._scores = scores

    async def send(self, ticket: Ticket, send: Send) -> None:
        """The whole response. Raises EdgeSpecError only as long as nothing was sent."""
        pieces = await ticket.stream.take(STATUS_SECONDS)
        if pieces is None:
            await ticket.completion()  # an answer without any text, or an error
        await self._send(send, {"type": "http.response.start", "status": 200, "headers": _raw(HEADERS)})
        await self._body(send, self._reply.opening(self._include_usage))
        screen = CallScreen(ticket.read.functions)
        while pieces is not None:
            await self._body(send, self._events(screen.push(pieces)) or KEEP_ALIVE)
            await self._body(send, self._news(ticket))
            pieces = await ticket.stream.take(KEEP_ALIVE_SECONDS)
        await self._body(send, await self._end(ticket, screen))
        await self._send(send, {"type": "http.response.body", "body": b"", "more_body": False})

    def _events(self, pieces: list[Piece]) -> bytes:
        return self._reply.events(pieces, self._include_usage, self._scores)

    async def _end(self, ticket: Ticket, screen: CallScreen) -> bytes:
        try:
            completion = await ticket.completion()
        except EdgeSpecError as error:
            return b"data: " + error_body(refusal_of(error)) + b"\n\n"
        told = None if ticket.rounds is None else ticket.rounds.whole()
        held, spoken = screen.finish()
        told_of = await predicted(ticket, completion)
        end = self._reply.closing(completion, told_of, self._include_usage, told, spoken.calls)
        return self._events(held) + end

    def _news(self, ticket: Ticket) -> bytes:
        news = None if ticket.rounds is None else ticket.rounds.news()
        return b"" if news is None else self._reply.rounds(news, self._include_usage)

    async def _body(self, send: Send, body: bytes) -> None:
        if body:
            await self._send(send, {"type": "http.response.body", "body": body, "more_body": True})

    async def _send(self, send: Send, message: Message) -> None:
        await asyncio.wait_for(send(message), self._stalled_seconds)


async def predicted(ticket: Ticket, completion: Completion) -> Predicted | None:
    """None if nothing was predicted."""
    if not ticket.read.prediction:
        return None
    n_accepted = await asyncio.to_thread(n_came_true, ticket.read.prediction, completion.token_ids)
    return Predicted(n_accepted, len(ticket.read.prediction) - n_accepted)


def _raw(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]
