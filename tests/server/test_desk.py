"""Places, back-pressure and clients that leave, over a toy whose passes a test can hold and count."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import httpx
import pytest

from edgespec.backend.toy import ToyModel
from edgespec.choice import DraftChoice
from edgespec.engine import CancelToken, Engine, GenerateOptions
from edgespec.errors import BadInput, EngineFailure
from edgespec.server.desk import ClientLeft, Desk, Limits
from edgespec.server.metrics import Metrics
from edgespec.server.reading import PromptReader, Read
from edgespec.server.refusals import Refusal
from edgespec.server.wire import Defaults, Wanted
from edgespec.spec.law import SamplingSettings
from edgespec.spec.ports import Capabilities
from tests.engine.toy_engine import EngineTarget, Gate, Pass, engine_over
from tests.server.serving import DEADLINE_SECONDS, Running, running, until
from tests.text.toy_vocab import ToyVocabulary

VOCAB = ToyVocabulary()
LIMITS = Capabilities(n_ctx=4000, n_vocab=VOCAB.n_vocab, max_rows=16, max_chunk=32, max_leaves=4, can_rollback=True)
ENDLESS = GenerateOptions(SamplingSettings(banned=tuple(VOCAB.end_tokens)), max_tokens=900)
ENDLESS_BY_MODEL = GenerateOptions(draft=DraftChoice.MODEL)
LONG = "a long question " * 20


def toy() -> EngineTarget:
    return EngineTarget(ToyModel(n_vocab=VOCAB.n_vocab, seed=4), LIMITS)


@contextmanager
def served(target: EngineTarget, limits: Limits | None = None) -> Iterator[Running]:
    with engine_over(target) as engine, running(engine, limits=limits, defaults=Defaults(ENDLESS, 0)) as one:
        yield one


def asked(client: httpx.Client, prompt: str = "hello", **more: object) -> httpx.Response:
    return client.post("/v1/completions", json={"prompt": prompt, **more})


# -- the desk alone ---------------------------------------------------------------------------------------------


def desk_of(engine: Engine, max_open: int = 2) -> Desk:
    return Desk(engine, PromptReader(engine), Limits(max_open), Metrics())


def test_who_leaves_ends_the_answer_within_one_pass() -> None:
    target = toy()
    gate = Gate(target, lambda one: one.width > 0 and len(target.passes) >= 5)

    async def leave(engine: Engine) -> None:
        desk = desk_of(engine)
        async with desk.answering(Wanted("hello", ENDLESS), CancelToken()) as ticket:
            assert await ticket.stream.take()
            await asyncio.to_thread(gate.wait_until_reached)
        assert desk.n_open == 1  # the engine is in the middle of a pass
        gate.open()
        await desk.settled()
        assert desk.n_open == 0

    with engine_over(target) as engine:
        asyncio.run(leave(engine))
    assert len(target.passes) == 6


def test_a_place_is_free_again_when_the_engine_refuses_a_request() -> None:
    async def ask(engine: Engine) -> None:
        desk = desk_of(engine, max_open=1)
        for _ in range(3):
            with pytest.raises(Refusal, match="no second model"):
                async with desk.answering(Wanted("x", ENDLESS_BY_MODEL), CancelToken()):
                    raise AssertionError
        assert desk.n_open == 0

    with engine_over(toy()) as engine:
        asyncio.run(ask(engine))


@pytest.mark.parametrize("error", [BadInput("a", "b", "c"), ValueError("a defect")])
def test_a_sequence_of_a_refused_request_is_freed(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    target, short = toy(), replace(ENDLESS, max_tokens=3)

    def fails(*_: object, **_named: object) -> None:
        raise error

    async def ask(engine: Engine) -> None:
        desk = desk_of(engine)
        async with desk.answering(Wanted("hello there", short), CancelToken()) as ticket:
            await ticket.completion()
        await desk.settled()
        assert len(target.live()) == 1
        monkeypatch.setattr(engine, "submit", fails)
        with pytest.raises(type(error)):
            async with desk.answering(Wanted("hello there", short), CancelToken()):
                raise AssertionError
        await asyncio.to_thread(until, lambda: not target.live())

    with engine_over(target) as engine:
        asyncio.run(ask(engine))


@pytest.mark.parametrize(("closes", "raised"), [(True, Refusal), (False, ClientLeft)])
def test_a_prompt_that_takes_long_is_not_waited_for(closes: bool, raised: type[Exception]) -> None:
    begun, going_on = threading.Event(), threading.Event()

    class Slow(PromptReader):
        def read(self, wanted: Wanted) -> Read:
            begun.set()
            assert going_on.wait(DEADLINE_SECONDS)
            raise ValueError("nobody hears of it")

    async def leave(engine: Engine) -> None:
        desk, cancel = Desk(engine, Slow(engine), Limits(2), Metrics()), CancelToken()

        async def ask() -> None:
            async with desk.answering(Wanted("hello", ENDLESS), cancel):
                raise AssertionError

        asking = asyncio.create_task(ask())
        await asyncio.to_thread(begun.wait, DEADLINE_SECONDS)
        (desk.close if closes else cancel.cancel)()
        with pytest.raises(raised):
            await asking
        assert desk.n_open == 0
        going_on.set()

    with engine_over(toy()) as engine:
        asyncio.run(leave(engine))


def test_a_closed_desk_takes_on_nothing_and_cancels_what_runs() -> None:
    async def close(engine: Engine) -> None:
        desk = desk_of(engine)
        async with desk.answering(Wanted("hello", ENDLESS), CancelToken()) as ticket:
            desk.close()
            completion = await ticket.stream.completion()
            assert completion.finish.value == "cancelled"
        with pytest.raises(Refusal, match="shutting down"):
            async with desk.answering(Wanted("hello", ENDLESS), CancelToken()):
                raise AssertionError
        await desk.settled()

    with engine_over(toy()) as engine:
        asyncio.run(close(engine))


# -- over HTTP --------------------------------------------------------------------------------------------------


def test_beyond_the_limit_requests_are_told_when_to_come_again() -> None:
    target = toy()
    gate = Gate(target, lambda _: True)
    with served(target, Limits(max_open=2)) as server, ThreadPoolExecutor(2) as pool, server.http() as client:
        running_ones = [pool.submit(asked, client, max_tokens=4) for _ in range(2)]
        until(lambda: server.n_open() == 2)
        refused = asked(client)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["error"]["type"] == "rate_limit_error"
        gate.open()
        assert [one.result().status_code for one in running_ones] == [200, 200]
        until(lambda: server.n_open() == 0)
        assert asked(client, max_tokens=4).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_whose_client_has_left_is_not_read_to_its_end(stream: bool) -> None:
    target = toy()
    gate = Gate(target, lambda _: len(target.passes) == 3)  # and it stays shut
    with served(target) as server:
        with server.send("/v1/completions", prompt=LONG, stream=stream):
            gate.wait_until_reached()
        until(lambda: server.n_open() == 0)
    assert len(target.passes) == 3


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_that_waits_is_dropped_when_its_client_leaves(stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    target = toy()
    gate = Gate(target, lambda one: one.width > 0)
    with served(target) as server, server.http() as client, ThreadPoolExecutor(LIMITS.max_sequences) as pool:
        first = [pool.submit(asked, client, max_tokens=3) for _ in range(LIMITS.max_sequences)]
        gate.wait_until_reached()
        until(lambda: server.n_open() == LIMITS.max_sequences)
        with server.send("/v1/completions", prompt=LONG, stream=stream):
            until(lambda: server.n_open() == LIMITS.max_sequences + 1)
        gate.open()
        assert all(one.result().json()["usage"]["completion_tokens"] == 3 for one in first)
        until(lambda: server.n_open() == 0)
        assert server.metric('edgespec_answers_total{finish="cancelled"}') == 1
        assert "edgespec_refusals_total{" not in client.get("/metrics").text  # there is nobody to refuse
    assert caplog.messages == []


def test_random_disconnects_leave_no_sequence_behind() -> None:
    target, expected = toy(), ""
    with served(target) as server:
        with server.http() as client:
            expected = asked(client, max_tokens=30).json()["choices"][0]["text"]
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(lambda seed: wander(server, seed), range(36)))
        until(lambda: server.n_open() == 0)
        assert len(target.live()) <= LIMITS.max_sequences
        with server.http() as client:
            assert asked(client, max_tokens=30).json()["choices"][0]["text"] == expected


def wander(server: Running, seed: int) -> None:
    """A client that leaves before, while or after its answer comes."""
    rng = random.Random(seed)
    body = {"prompt": "x" * rng.randint(1, 300), "stream": True, "max_tokens": rng.choice((2, 40, 900))}
    body["edgespec"] = {"draft": rng.choice(("off", "lookup")), "exact": rng.random() < 0.2}
    n_events = rng.choice((0, 1, 5, 10_000)) if body["max_tokens"] != 900 else rng.choice((0, 1, 5))
    with server.http() as client, client.stream("POST", "/v1/completions", json=body) as response:
        assert response.status_code == 200
        for n, _ in enumerate(response.iter_lines()):
            if n >= n_events:
                break


def test_a_server_that_ends_says_so_in_the_stream() -> None:
    target = toy()
    gate = Gate(target, lambda _: len(target.passes) >= 5)
    with served(target) as server, server.http() as client:
        body = {"prompt": "hello", "stream": True}
        with client.stream("POST", "/v1/completions", json=body) as response:
            lines = response.iter_lines()
            next(lines)
            server.stop()
            until(lambda: not server.listens())
            gate.open()
            data = [line for line in lines if line]
    error = json.loads(data[-1].removeprefix("data: "))["error"]
    assert (error["code"], error["type"]) == ("closing", "server_error")


def test_an_engine_that_fails_in_mid_answer_ends_the_stream_with_its_error() -> None:
    target = toy()
    target.before_pass = breaks_at(target, 6)
    with served(target) as server, server.http() as client:
        events = asked(client, stream=True).text.split("\n\n")
        assert "engine_failure" in events[-2]
        target.before_pass = None
        assert asked(client, max_tokens=2).status_code == 200
        target.before_pass = breaks_at(target, 0)
        early = asked(client, stream=True)
        assert early.status_code == 500
        assert early.json()["error"]["code"] == "engine_failure"


def breaks_at(target: EngineTarget, n_passes: int) -> Callable[[Pass], None]:
    def fail(_: Pass) -> None:
        if len(target.passes) >= n_passes:
            raise EngineFailure("a pass", "it broke", "try again")

    return fail
