"""An answer for asyncio programs: its pieces as they come, with no thread of its own.

Contract: the engine's thread does nothing but wake the loop. Leaving a `with` block early, also because the task that
reads is cancelled, cancels the answer. Knows no engine and no protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from edgespec.engine.answer import Answer
from edgespec.events import Completion, Piece


class AsyncAnswer:
    """Read by the loop in which it was made.

    async with AsyncAnswer(engine.complete("Once")) as stream:
        async for piece in stream:
            print(piece.text)
    """

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        answer.listen(self._wake)

    async def __aenter__(self) -> AsyncAnswer:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if not self.over:
            self.answer.cancel()

    async def __aiter__(self) -> AsyncIterator[Piece]:
        """Raises at the end what the answer failed with."""
        while (pieces := await self.take()) is not None:
            for piece in pieces:
                yield piece
        self.answer.completion()

    @property
    def over(self) -> bool:
        return self.answer.wait(0.0)

    async def take(self, patience_seconds: float | None = None) -> list[Piece] | None:
        """What has come since, at least one piece; [] if nothing comes in that time; None once there is no more."""
        while True:
            self._news.clear()
            pieces = self.answer.take()
            if pieces is None or pieces:
                return pieces
            try:
                await asyncio.wait_for(self._news.wait(), patience_seconds)
            except asyncio.TimeoutError:
                return []

    async def completion(self) -> Completion:
        """The whole, once it is there. Takes no piece away. Raises what the answer failed with."""
        while not self.over:
            self._news.clear()
            if not self.over:
                await self._news.wait()
        return self.answer.completion()

    def _wake(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody reads any more
            self._loop.call_soon_threadsafe(self._news.set)
