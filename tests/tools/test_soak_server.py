"""What the watched engine keeps of what passes through it, and the server around it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgespec.engine import EngineOptions, GenerateOptions
from edgespec.errors import ContextOverflow
from edgespec.events import RoundReport
from tools.soak_server import MOST_KEPT, WatchedEngine, open_watched, served

SHORT = GenerateOptions(max_tokens=4)


@pytest.fixture
def engine(toy: Path) -> Iterator[WatchedEngine]:
    with open_watched(str(toy), EngineOptions(ctx_size=512, threads=1)) as opened:
        assert isinstance(opened, WatchedEngine)
        yield opened


def test_it_knows_which_sequences_somebody_may_still_use(engine: WatchedEngine) -> None:
    kept = engine.new_sequence()
    engine.submit(kept, True, [1, 2, 3], SHORT).wait()
    engine.complete("hello", SHORT).wait()
    with pytest.raises(ContextOverflow):
        engine.submit(kept, True, [1] * 1000, SHORT)
    assert engine.n_held == 1
    engine.release(kept)
    assert engine.n_held == 0


def test_it_keeps_answers_and_their_rounds_until_they_are_taken(engine: WatchedEngine) -> None:
    seen: list[RoundReport] = []
    answer = engine.complete("hello", SHORT, on_round=seen.append)
    completion = answer.completion()
    (asked,) = engine.take_asked()
    assert asked.answer is answer
    assert [report for _, report in asked.rounds] == seen
    moments = [moment for moment, _ in asked.rounds]
    assert moments == sorted(moments)
    assert len(seen) == completion.timings.passes
    assert engine.take_asked() == []


def test_it_keeps_the_last_few_only(engine: WatchedEngine) -> None:
    answers = [engine.complete("hello", GenerateOptions(max_tokens=1)) for _ in range(MOST_KEPT + 2)]
    assert [one.answer for one in engine.take_asked()] == answers[2:]


def test_a_request_goes_over_the_socket_and_the_server_leaves_no_thread(engine: WatchedEngine) -> None:
    before = set(threading.enumerate())
    with served(engine, SHORT) as running, running.client() as client:
        body = client.post("/v1/completions", json={"prompt": "hello"}).json()
        assert body["usage"]["completion_tokens"] == 4
        assert running.n_open() == 0
    assert len(engine.take_asked()) == 1
    assert {thread.name for thread in set(threading.enumerate()) - before} == set()
