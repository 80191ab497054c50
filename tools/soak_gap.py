"""How long another stream stands still while a long prompt is read, against what one chunk and one round take.

Contract: the gap is what a client sees over a socket; chunk and round are the engine's own times. The chunks are
measured alone, each at its place in the prompt, so that a gap of two chunks cannot pass for one. On a machine that
others use these times say little; that there was a round for every chunk holds there, too. Knows no screen.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from edgespec.engine import DraftChoice, GenerateOptions
from edgespec.errors import EngineFailure
from tools.fuzz_requests import TEXT
from tools.soak_parallel import never_ending
from tools.soak_server import Served, WatchedEngine

BEGIN_SECONDS = 60.0
# What a stream may take to end after its client has read enough.
STREAM_TOKENS = 2000
# The stream's own text before the prompt comes, so that both arms are at work.
N_BEFORE = 3


@dataclass(frozen=True, slots=True)
class Gap:
    """While the prompt was read. Seconds, all of them the longest there was; engine_seconds: between the ends of two
    rounds of the stream. n_rounds: of the stream.
    """

    n_prompt: int
    n_chunks: int
    n_rounds: int
    seconds: float
    engine_seconds: float
    chunk_seconds: float
    round_seconds: float

    @property
    def allowed_seconds(self) -> float:
        return self.chunk_seconds + self.round_seconds

    def findings(self) -> list[str]:
        found = []
        if self.n_rounds < self.n_chunks - 1:
            found.append(f"{self.n_chunks} chunks were read between {self.n_rounds} rounds of the stream")
        if self.seconds > self.allowed_seconds:
            found.append("the stream stood still longer than a chunk and a round")
        return found


@dataclass(slots=True)
class _Reader:
    """A client that notes when text came. moments: on time.perf_counter."""

    moments: list[float] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    begun: threading.Event = field(default_factory=threading.Event)

    def read(self, running: Served) -> None:
        body = {
            "prompt": "Once upon a time",
            "max_tokens": min(STREAM_TOKENS, running.engine.settings.n_ctx // 3),
            "temperature": 0,
            "stream": True,
            "logit_bias": never_ending(running),
            "edgespec": {"draft": "off"},
        }
        with running.client() as client, client.stream("POST", TEXT, json=body) as response:
            for line in response.iter_lines():
                if '"source":' in line:
                    self.moments.append(time.perf_counter())
                    if len(self.moments) > N_BEFORE:
                        self.begun.set()
                if self.stop.is_set():
                    return


def measure(running: Served, n_prompt: int) -> Gap:
    """Raises EngineFailure when the stream does not begin or ends before the prompt is read, and httpx's errors."""
    engine = running.engine
    chunks = chunk_seconds(engine, _prompt(engine, n_prompt, " water"))
    engine.take_asked()
    reader = _Reader()
    thread = threading.Thread(target=reader.read, args=(running,))
    thread.start()
    try:
        if not reader.begun.wait(BEGIN_SECONDS):
            raise EngineFailure("the stream", f"no text came within {BEGIN_SECONDS:g} s", "try again")
        stream = engine.take_asked()[-1]
        started, ended = _read_prompt(running, _prompt(engine, n_prompt, " river"))
    finally:
        reader.stop.set()
        thread.join()
    if not any(moment > ended for moment in reader.moments):
        raise EngineFailure("the stream", "it ended before the prompt was read", "give a shorter prompt")
    rounds = [(moment, report.seconds) for moment, report in stream.rounds if started <= moment <= ended]
    return Gap(
        n_prompt,
        len(chunks),
        len(rounds),
        longest_gap(reader.moments, started, ended),
        longest_gap([moment for moment, _ in stream.rounds], started, ended),
        max(chunks),
        max((seconds for _, seconds in rounds), default=0.0),
    )


def chunk_seconds(engine: WatchedEngine, prompt: list[int]) -> list[float]:
    """What reading each chunk of a prompt takes when nothing else runs, in its order. Raises the engine's errors."""
    n_chunk = engine.settings.prefill_chunk
    options = GenerateOptions(max_tokens=1, draft=DraftChoice.OFF)
    sequence = engine.new_sequence()
    try:
        seconds = []
        for end in [*range(n_chunk, len(prompt) - 1, n_chunk), len(prompt) - 1]:
            # The last token of a prompt is read with the answer: all but that of a chunk is what this call has to read.
            answer = engine.submit(sequence, True, prompt[: end + 1], options)
            seconds.append(answer.completion().timings.prompt_seconds)
        return seconds
    finally:
        engine.release(sequence)


def longest_gap(moments: Sequence[float], started: float, ended: float) -> float:
    """Between two neighbours of which the later comes after the start, and the earlier before the end."""
    return max(
        (after - before for before, after in pairwise(moments) if after > started and before < ended), default=0.0
    )


def _read_prompt(running: Served, prompt: list[int]) -> tuple[float, float]:
    """When it was sent, and when its one token had come."""
    with running.client() as client:
        started = time.perf_counter()
        client.post(TEXT, json={"prompt": prompt, "max_tokens": 1, "edgespec": {"draft": "off"}}).raise_for_status()
        return started, time.perf_counter()


def _prompt(engine: WatchedEngine, n_tokens: int, text: str) -> list[int]:
    """Two of different texts share nothing, so neither is read from the cache."""
    return (engine.vocab.tokenize(text) * n_tokens)[:n_tokens]


def lines(gap: Gap) -> list[str]:
    times = (gap.seconds, gap.engine_seconds, gap.chunk_seconds, gap.round_seconds)
    apart, inside, chunk, one_round = (f"{1e3 * seconds:.1f} ms" for seconds in times)
    share = gap.seconds / gap.allowed_seconds
    return [
        f"{gap.n_prompt} tokens read in {gap.n_chunks} chunks, with {gap.n_rounds} rounds of another stream between",
        f"its pieces came at most {apart} apart, its rounds ended at most {inside} apart",
        f"longest chunk {chunk}, longest round {one_round}: {share:.2f} of both together",
    ]
