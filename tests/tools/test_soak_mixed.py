"""A small soak of a toy model, and that each thing it looks for is found when it is there."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgespec.engine import EngineOptions, GenerateOptions
from edgespec.engine.cache import CacheBook
from tools.soak_clients import Leaves, Outcome
from tools.soak_mixed import ALLOWED_GROWTH_BYTES, Soaked, cache_is_free, lines, percentile, settled, soak
from tools.soak_server import WatchedEngine, open_watched, served

FINE = Soaked((Outcome(0, Leaves.NEVER, 0.25, ""), Outcome(1, Leaves.UNREAD, None, "")), (100, 100), 0, 4, 4, True)


@pytest.fixture
def engine(toy: Path) -> Iterator[WatchedEngine]:
    with open_watched(str(toy), EngineOptions(ctx_size=1024, threads=1)) as opened:
        assert isinstance(opened, WatchedEngine)
        yield opened


def test_a_small_soak_leaves_nothing(engine: WatchedEngine) -> None:
    soaked = soak(engine, 32, 8, seed=2, most_tokens=24)
    assert soaked.findings() == []
    assert [one.number for one in soaked.outcomes] == list(range(32))
    assert {one.leaves for one in soaked.outcomes} == set(Leaves)
    assert len(soaked.rss_bytes) == 32
    assert soaked.first_text_seconds


@pytest.mark.parametrize(
    ("soaked", "what"),
    [
        (replace(FINE, outcomes=(Outcome(7, Leaves.NEVER, None, "no"),)), "request 7: no"),
        (replace(FINE, n_open=1), "1 requests are still open"),
        (replace(FINE, n_held=5), "5 sequences are held"),
        (replace(FINE, cache_is_free=False), "a prompt that needs the whole cache"),
        (replace(FINE, rss_bytes=(0, 9, 9, 9 + 2 * ALLOWED_GROWTH_BYTES)), "memory grew by 32.0 MiB"),
    ],
)
def test_what_is_not_as_it_must_be_is_said(soaked: Soaked, what: str) -> None:
    assert FINE.findings() == []
    assert [line[: len(what)] for line in soaked.findings()] == [what]


def test_memory_that_goes_up_and_down_again_has_not_grown() -> None:
    assert replace(FINE, rss_bytes=(50, 9, 90, 90, 90, 90, 10, 40)).grown_bytes == -10


def test_a_request_under_way_is_waited_for(engine: WatchedEngine) -> None:
    with served(engine) as running, running.client() as client:
        with client.stream("POST", "/v1/completions", json={"prompt": "a", "max_tokens": 900, "stream": True}):
            assert settled(running, patience_seconds=0.0) == 1
        assert settled(running) == 0


def test_cells_of_a_lost_sequence_are_missed(engine: WatchedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def losing(self: CacheBook, sequence: int) -> None:
        self._cached.pop(sequence, None)  # and not a word to the target

    engine.complete("the river " * 20, GenerateOptions(max_tokens=4)).wait()
    assert cache_is_free(engine)
    monkeypatch.setattr(CacheBook, "release", losing)
    engine.complete("the river " * 20, GenerateOptions(max_tokens=4)).wait()
    assert not cache_is_free(engine)


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert (percentile(values, 50), percentile(values, 99), percentile([3.0], 99)) == (51.0, 100.0, 3.0)
    assert math.isnan(percentile([], 50))


def test_the_lines_for_people() -> None:
    first, second, third, fourth = lines(FINE)
    assert first == "2 requests, 1 hung up, 0 errors"
    assert second == "first text: p50 0.250 s, p99 0.250 s (1 streams)"
    assert third.startswith("memory: at most 0.0 MiB, 0.0 MiB more")
    assert fourth == "left over: 0 open requests, 4 sequences kept for reuse"
