"""Takes requests on, hands them to the engine, and has their places back only when the engine is done with them.

Contract: used by one asyncio loop. A place is taken from `answering` on until the engine has ended the answer, however
the client left; beyond `Limits.max_open` places a request is refused at once and told when to come again.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

from edgespec.engine import CancelToken, Engine
from edgespec.engine.streaming import AsyncAnswer
from edgespec.errors import EdgeSpecError
from edgespec.events import Completion, Finish
from edgespec.server.metrics import Metrics
from edgespec.server.reading import PromptReader, Read
from edgespec.server.refusals import busy, closing
from edgespec.server.rounds import Reasons, RoundFeed
from edgespec.server.shelf import Shelf
from edgespec.server.wire import Wanted

# Longest wait that is ever suggested: by then things have changed anyway.
MOST_RETRY_SECONDS = 60
# How much the newest answer counts in the usual length of one.
_NEWEST = 0.2


@dataclass(frozen=True, slots=True)
class Limits:
    """max_open: answers under way and waiting together. body_seconds: for sending a request's body. stalled_seconds: a
    client that takes nothing off its connection for so long is gone.
    """

    max_open: int = 20
    max_body_bytes: int = 8 << 20
    body_seconds: float = 30.0
    stalled_seconds: float = 60.0


class ClientLeft(Exception):
    """The answer was cancelled because its client left: there is nobody to tell."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """An answer on its way, and its prompt as it was read. is_closing: whether the server is about to end. rounds: for
    a client that asked for them.
    """

    stream: AsyncAnswer
    read: Read
    is_closing: Callable[[], bool]
    rounds: RoundFeed | None = None

    async def completion(self) -> Completion:
        """Of an answer that was not cut off. Raises Refusal when the server ended it, ClientLeft, and what it failed
        with.
        """
        completion = await self.stream.completion()
        if completion.finish is Finish.CANCELLED:
            raise closing() if self.is_closing() else ClientLeft
        return completion


class Desk:
    def __init__(
        self,
        engine: Engine,
        reader: PromptReader,
        limits: Limits,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits
        self._engine = engine
        self._reader = reader
        self._metrics = metrics
        self._clock = clock
        self._n_at_once = engine.settings.max_sequences
        self._shelf = Shelf(engine.new_sequence, engine.release, self._n_at_once)
        self._n_open = 0
        self._usual_seconds = 1.0
        self._tokens: set[CancelToken] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def n_open(self) -> int:
        return self._n_open

    @asynccontextmanager
    async def answering(self, wanted: Wanted, cancel: CancelToken) -> AsyncIterator[Ticket]:
        """Whoever leaves early has cancelled. Raises Refusal when there is no place,
        ClientLeft, and what the engine refuses.
        """
        self._enter(cancel)
        started = self._clock()
        ending = None
        try:
            read = await self._read(wanted, cancel)
            feed = self._feed(read) if wanted.rounds else None
            # An exact answer is a function of its request alone, so it goes on from nobody's cache.
            exact = read.options.exact
            sequence = self._engine.new_sequence() if exact else self._shelf.take(read.tokens)
            on_round = feed.add if feed else None
            submit = partial(
                self._engine.submit, sequence, not exact, read.tokens, read.options, cancel, on_round=on_round
            )
            # The first grammar takes most of a second to make ready.
            try:
                answer = await asyncio.to_thread(submit) if read.options.grammar else submit()
            except BaseException:  # whatever it was, no sequence stays behind; raised again
                self._engine.release(sequence)
                raise
            ticket = Ticket(AsyncAnswer(answer), read, lambda: self._closed, feed)
            ending = self._end(ticket, sequence, started, cancel)
            yield ticket
        finally:
            if ending is None:
                self._leave(cancel)
            else:
                if not ticket.stream.over:
                    cancel.cancel()
                task = asyncio.create_task(ending)
                self._ending.add(task)
                task.add_done_callback(self._ending.discard)

    async def _read(self, wanted: Wanted, cancel: CancelToken) -> Read:
        """Raises ClientLeft or Refusal as soon as it is cancelled: the thread ends by itself, with nobody waiting."""
        loop, leaving = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(leaving.set)

        cancel.on_cancel(wake)
        reading = asyncio.create_task(asyncio.to_thread(self._reader.read, wanted))
        reading.add_done_callback(lambda task: task.cancelled() or task.exception())  # what it raises may be no news
        left = asyncio.create_task(leaving.wait())
        try:
            await asyncio.wait((reading, left), return_when=asyncio.FIRST_COMPLETED)
        finally:
            left.cancel()
            cancel.forget(wake)
        if not reading.done():
            raise closing() if self._closed else ClientLeft
        return reading.result()

    def _feed(self, read: Read) -> RoundFeed:
        engine, choice = self._engine, read.options.draft

        def reasons() -> Reasons:
            explained = engine.explain(len(read.tokens), choice)
            return None if explained is None else explained.rounds

        return RoundFeed(engine.vocab, choice, reasons)

    def close(self) -> None:
        """Cancel every answer, and take on no more."""
        self._closed = True
        for token in list(self._tokens):
            token.cancel()

    async def settled(self) -> None:
        """Until the engine is done with every answer that was left."""
        while self._ending:
            await asyncio.wait(self._ending)

    def _enter(self, cancel: CancelToken) -> None:
        if self._closed:
            raise closing()
        if self._n_open >= self.limits.max_open:
            raise busy(
                f"{self._n_open} requests", "as many are being answered as this server takes", self._retry_after()
            )
        self._n_open += 1
        self._tokens.add(cancel)

    def _leave(self, cancel: CancelToken) -> None:
        self._n_open -= 1
        self._tokens.discard(cancel)

    def _retry_after(self) -> int:
        """Until about one of the waiting has begun, rounded up."""
        return max(1, min(MOST_RETRY_SECONDS, math.ceil(self._usual_seconds / self._n_at_once)))

    async def _end(self, ticket: Ticket, sequence: int, started: float, cancel: CancelToken) -> None:
        tokens = ticket.read.tokens
        try:
            completion = await ticket.stream.completion()
            tokens = [*tokens, *completion.token_ids]
            self._count(completion, self._clock() - started)
        except EdgeSpecError:
            self._metrics.failed()
        finally:
            if not ticket.read.options.exact:
                self._shelf.put_back(sequence, tokens)
            self._leave(cancel)

    def _count(self, completion: Completion, seconds: float) -> None:
        timings = completion.timings
        self._metrics.finished(completion, max(0.0, seconds - timings.prompt_seconds - timings.decode_seconds))
        if completion.finish is not Finish.CANCELLED:
            self._usual_seconds += _NEWEST * (seconds - self._usual_seconds)
