from __future__ import annotations

import asyncio
import threading

import pytest

from edgespec.backend.toy import ToyModel
from edgespec.engine import Answer, CancelToken, GenerateOptions
from edgespec.engine.streaming import AsyncAnswer
from edgespec.errors import EngineFailure
from edgespec.events import Completion, Finish, Piece, Timings, Usage
from edgespec.spec.law import SamplingSettings
from edgespec.spec.ports import Capabilities
from tests.engine.toy_engine import EngineTarget, Gate, engine_over
from tests.text.toy_vocab import ToyVocabulary

VOCAB = ToyVocabulary()
LIMITS = Capabilities(n_ctx=1000, n_vocab=VOCAB.n_vocab, max_rows=16, max_chunk=32, max_leaves=4, can_rollback=True)
ENDLESS = GenerateOptions(SamplingSettings(banned=tuple(VOCAB.end_tokens)), max_tokens=200)
WHOLE = Completion(
    "ab", (0, 1), Finish.STOP, Usage(1, 2), Timings(0.0, 0.0, 0.0, 0.0, 0, 0, 0, "", False, (), 0, 0, 0), ()
)
A, B, C = Piece("a", (0,), ""), Piece("b", (1,), "lookup"), Piece("c", (2,), "")
FAILURE = EngineFailure("what", "why", "remedy")


def target() -> EngineTarget:
    return EngineTarget(ToyModel(n_vocab=VOCAB.n_vocab, seed=4), LIMITS)


async def pieces_of(stream: AsyncAnswer) -> list[Piece]:
    return [piece async for piece in stream]


def test_it_gives_what_the_plain_iterator_gives() -> None:
    async def both() -> tuple[str, list[str]]:
        with engine_over(target()) as engine:
            plain = "".join(piece.text for piece in engine.complete("hello", ENDLESS))
            streams = [AsyncAnswer(engine.complete("hello", ENDLESS)) for _ in range(5)]
            together = await asyncio.gather(*map(pieces_of, streams))
            completion = await streams[0].completion()
            assert completion.text == plain
            return plain, ["".join(piece.text for piece in pieces) for pieces in together]

    plain, together = asyncio.run(both())
    assert together == [plain] * 5


def test_the_end_is_known_however_late_the_reader_comes() -> None:
    async def read() -> None:
        answer = Answer(CancelToken())
        for event in (A, B, WHOLE):
            answer.put(event)
        stream = AsyncAnswer(answer)
        assert stream.over
        assert await stream.take() == [A, B]
        assert await stream.take() is None
        assert await stream.take() is None
        assert await stream.completion() == WHOLE

    asyncio.run(read())


def test_patience_ends_without_taking_anything() -> None:
    async def read() -> None:
        answer = Answer(CancelToken())
        stream = AsyncAnswer(answer)
        assert await stream.take(0.001) == []
        assert not stream.over
        answer.put(A)
        answer.flush()
        assert await stream.take(0.001) == [A]

    asyncio.run(read())


def test_an_error_comes_after_the_pieces_before_it() -> None:
    async def read() -> None:
        answer = Answer(CancelToken())
        stream = AsyncAnswer(answer)
        answer.put(A)
        answer.put(FAILURE)
        reading = aiter(stream)
        assert await anext(reading) == A
        with pytest.raises(EngineFailure):
            await anext(reading)
        with pytest.raises(EngineFailure):
            await stream.completion()

    asyncio.run(read())


def test_pieces_from_another_thread_wake_the_loop() -> None:
    async def read() -> list[Piece]:
        answer = Answer(CancelToken())
        stream = AsyncAnswer(answer)

        def speak() -> None:
            for piece in (A, B, C):
                answer.put(piece)
                answer.flush()
            answer.put(WHOLE)

        reader = asyncio.create_task(pieces_of(stream))
        whole = asyncio.create_task(stream.completion())
        await asyncio.sleep(0)
        thread = threading.Thread(target=speak)
        thread.start()
        assert await whole == WHOLE
        pieces = await reader
        thread.join()
        return pieces

    assert asyncio.run(read()) == [A, B, C]


def test_a_reader_that_is_cancelled_cancels_the_answer() -> None:
    one = target()
    gate = Gate(one, lambda _: len(one.passes) >= 4)

    async def read(stream: AsyncAnswer) -> None:
        async with stream:
            await pieces_of(stream)

    async def leave() -> None:
        with engine_over(one) as engine:
            stream = AsyncAnswer(engine.complete("hello", ENDLESS))
            reader = asyncio.create_task(read(stream))
            await asyncio.to_thread(gate.wait_until_reached)
            reader.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader
            gate.open()
            completion = await stream.completion()
            assert completion.finish is Finish.CANCELLED

    asyncio.run(leave())
    assert len(one.passes) == 5


def test_a_loop_that_is_gone_is_no_trouble_to_the_engine() -> None:
    async def begin() -> Answer:
        answer = Answer(CancelToken())
        AsyncAnswer(answer)
        return answer

    answer = asyncio.run(begin())
    answer.put(A)
    answer.put(WHOLE)
    assert answer.completion() == WHOLE
    assert list(answer) == [A]
