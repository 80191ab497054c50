from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgespec.engine import EngineOptions
from edgespec.errors import EngineFailure
from tools.soak_gap import Gap, chunk_seconds, lines, longest_gap, measure
from tools.soak_server import WatchedEngine, open_watched, served

N_PROMPT = 600
FINE = Gap(600, 5, 4, 0.03, 0.029, 0.02, 0.01)


@pytest.fixture
def engine(toy: Path) -> Iterator[WatchedEngine]:
    with open_watched(str(toy), EngineOptions(ctx_size=2048, threads=1)) as opened:
        assert isinstance(opened, WatchedEngine)
        yield opened


def test_a_stream_beside_a_long_prompt(engine: WatchedEngine) -> None:
    with served(engine) as running:
        gap = measure(running, N_PROMPT)
    assert (gap.n_prompt, gap.n_chunks) == (N_PROMPT, 3)
    assert gap.n_rounds >= gap.n_chunks - 1
    assert min(gap.seconds, gap.engine_seconds, gap.chunk_seconds, gap.round_seconds) > 0


def test_a_stream_that_ends_too_soon_is_no_measurement(engine: WatchedEngine) -> None:
    with served(engine) as running, pytest.raises(EngineFailure, match="give a shorter prompt"):
        measure(running, 1990)  # leaves the stream no room: the prompt waits until it is over


def test_every_chunk_is_read_by_itself(engine: WatchedEngine) -> None:
    n_chunk = engine.settings.prefill_chunk
    for n_prompt, n_chunks in ((2 * n_chunk + 1, 2), (2 * n_chunk + 2, 3), (3 * n_chunk + 1, 3)):
        seconds = chunk_seconds(engine, [1] * n_prompt)
        timings = [one.answer.completion().timings for one in engine.take_asked()]
        assert len(seconds) == len(timings) == n_chunks
        assert [one.cached_prompt_tokens for one in timings] == [0, n_chunk + 1, 2 * n_chunk + 1][:n_chunks]
    assert engine.n_held == 0


def test_the_longest_gap_touches_the_time_of_the_prompt() -> None:
    moments = [0.0, 5.0, 6.0, 8.0, 9.0, 19.0]
    assert longest_gap(moments, started=5.5, ended=8.5) == 2.0
    assert longest_gap(moments, started=4.0, ended=8.5) == 5.0  # it stood still when the prompt came
    assert longest_gap(moments, started=8.5, ended=9.5) == 10.0
    assert longest_gap(moments, started=20.0, ended=21.0) == 0.0


def test_the_lines_for_people() -> None:
    first, second, third = lines(FINE)
    assert first == "600 tokens read in 5 chunks, with 4 rounds of another stream between"
    assert second == "its pieces came at most 30.0 ms apart, its rounds ended at most 29.0 ms apart"
    assert third == "longest chunk 20.0 ms, longest round 10.0 ms: 1.00 of both together"


def test_what_is_not_as_it_must_be_is_said() -> None:
    assert FINE.findings() == []
    assert replace(FINE, n_rounds=3).findings() == ["5 chunks were read between 3 rounds of the stream"]
    assert replace(FINE, seconds=0.031).findings() == ["the stream stood still longer than a chunk and a round"]
