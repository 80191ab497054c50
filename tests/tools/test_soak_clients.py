"""The clients of the soak against a server of a toy model: those that read, those that hang up, and those refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgespec.engine import EngineOptions
from tools.fuzz_requests import CHAT, TEXT, Case, JsonObject, Maker
from tools.soak_clients import Call, Client, Leaves, Outcome, work
from tools.soak_mixed import settled
from tools.soak_server import Served, WatchedEngine, open_watched, served

STREAM: JsonObject = {"prompt": "the river", "max_tokens": 40, "stream": True}


@pytest.fixture(scope="module")
def running(toy: Path, tools_home: Path) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGESPEC_HOME", str(tools_home))
        opened = open_watched(str(toy), EngineOptions(ctx_size=1024, threads=1))
    with opened, served(opened) as one:
        yield one


@pytest.fixture
def client(running: Served) -> Iterator[Client]:
    with running.client() as http:
        yield Client(http, running.port)


def call(body: JsonObject, leaves: Leaves = Leaves.NEVER, patience: float = 0.0, path: str = TEXT) -> Call:
    return Call(Case(1, path, body, "lookup"), leaves, patience)


def test_calls_are_drawn_by_the_seed_and_some_leave() -> None:
    maker = Maker(1, 448, scored=False)
    calls = [Call.drawn(maker.case(number), 1, 25) for number in range(100)]
    assert calls == [Call.drawn(maker.case(number), 1, 25) for number in range(100)]
    assert {one.leaves for one in calls} == set(Leaves)
    assert not any(one.leaves is Leaves.MID_STREAM for one in calls if not one.case.stream)
    assert {Call.drawn(maker.case(number), 1, 0).leaves for number in range(100)} == {Leaves.NEVER}


def test_a_stream_is_read_to_its_end_and_timed(client: Client) -> None:
    outcome = client.outcome(call(STREAM))
    assert outcome.error == ""
    assert outcome.first_text_seconds is not None
    assert outcome.first_text_seconds > 0


def test_a_whole_answer_has_no_first_text(client: Client) -> None:
    chat: JsonObject = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}
    assert client.outcome(call(chat, path=CHAT)) == Outcome(1, Leaves.NEVER, None, "")


@pytest.mark.parametrize("leaves", [Leaves.UNREAD, Leaves.MID_STREAM])
def test_a_client_that_leaves_makes_no_error_and_its_answer_ends(
    leaves: Leaves, client: Client, running: Served
) -> None:
    outcome = client.outcome(call({**STREAM, "max_tokens": 900}, leaves))
    assert (outcome.leaves, outcome.error) == (leaves, "")
    assert settled(running) == 0


@pytest.mark.parametrize("stream", [True, False])
def test_a_refusal_is_an_error(stream: bool, client: Client) -> None:
    outcome = client.outcome(call({**STREAM, "stream": stream, "temperature": -1}))
    assert "temperature" in outcome.error


def test_a_server_that_is_not_there_is_an_error(running: Served) -> None:
    with running.client() as http:
        http.base_url = "http://127.0.0.1:9"
        assert Client(http, 9).outcome(call(STREAM)).error
        assert Client(http, 9).outcome(call(STREAM, Leaves.UNREAD)).error


def test_every_call_is_made_once_whoever_makes_it(running: Served) -> None:
    calls = [replace(call(STREAM), case=Case(number, TEXT, {**STREAM, "max_tokens": 3}, "off")) for number in range(9)]
    told: list[int] = []
    with running.client() as one, running.client() as other:
        clients = [Client(one, running.port), Client(other, running.port)]
        outcomes = work(clients, calls, lambda outcome: told.append(outcome.number))
    assert [outcome.number for outcome in outcomes] == list(range(9)) == sorted(told)
    assert isinstance(running.engine, WatchedEngine)
    assert not any(outcome.error for outcome in outcomes)
