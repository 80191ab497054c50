"""The soak itself: many clients, mixed requests, random disconnects; then, what of them is left. Counts and memory.

Contract: a finding is a sentence; none means no error, no leak and flat memory.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import click
import psutil

from edgespec.engine import GenerateOptions
from edgespec.errors import EdgeSpecError
from tools.fuzz_requests import Maker
from tools.soak_clients import Call, Client, Leaves, Outcome, work
from tools.soak_server import Served, WatchedEngine, served

LEAVING_OF_100 = 25
# An abandoned answer stops within a pass; a machine under load may take its time for one.
SETTLE_SECONDS = 60.0
# The allocator and caches that fill up once may still grow by this; a sequence or an answer that is lost with every
# request would show many times over.
ALLOWED_GROWTH_BYTES = 16 << 20
# Tokens that the last request leaves free of the whole context.
SPARE_TOKENS = 4


@dataclass(frozen=True, slots=True)
class Soaked:
    """first_text_seconds: of the streams that were read, in no order. rss_bytes: after each answer. n_kept: so many
    sequences may be held, for prompts that begin like theirs.
    """

    outcomes: tuple[Outcome, ...]
    rss_bytes: tuple[int, ...]
    n_open: int
    n_held: int
    n_kept: int
    cache_is_free: bool

    @property
    def first_text_seconds(self) -> list[float]:
        return [one.first_text_seconds for one in self.outcomes if one.first_text_seconds is not None]

    @property
    def grown_bytes(self) -> int:
        """From the first quarter's most to the last quarter's most."""
        quarter = max(1, len(self.rss_bytes) // 4)
        return max(self.rss_bytes[-quarter:]) - max(self.rss_bytes[:quarter])

    def findings(self) -> list[str]:
        found = [f"request {one.number}: {one.error}" for one in self.outcomes if one.error]
        if self.n_open:
            found.append(f"{self.n_open} requests are still open")
        if self.n_held > self.n_kept:
            found.append(f"{self.n_held} sequences are held and {self.n_kept} may be")
        if not self.cache_is_free:
            found.append("a prompt that needs the whole cache was not answered")
        if self.grown_bytes > ALLOWED_GROWTH_BYTES:
            found.append(f"memory grew by {self.grown_bytes / 2**20:.1f} MiB")
        return found


def soak(engine: WatchedEngine, n: int, n_clients: int, seed: int, most_tokens: int) -> Soaked:
    """Progress on stderr. Raises EngineFailure when the server does not begin."""
    maker = Maker(seed, engine.vocab.n_vocab, scored=True, most_tokens=most_tokens)
    calls = [Call.drawn(maker.case(number), seed, LEAVING_OF_100) for number in range(n)]
    process, rss = psutil.Process(), list[int]()
    with served(engine) as running, ExitStack() as stack:
        clients = [Client(stack.enter_context(running.client()), running.port) for _ in range(n_clients)]
        with click.progressbar(length=n, label=f"{n} requests, {n_clients} clients", file=sys.stderr) as bar:

            def told(_outcome: Outcome) -> None:
                rss.append(process.memory_info().rss)
                bar.update(1)

            outcomes = work(clients, calls, told)
        n_open = settled(running)
    return Soaked(
        tuple(outcomes), tuple(rss), n_open, engine.n_held, engine.settings.max_sequences, cache_is_free(engine)
    )


def settled(running: Served, patience_seconds: float = SETTLE_SECONDS) -> int:
    """Requests that are still open when all clients have left and the engine had time to notice."""
    deadline = time.monotonic() + patience_seconds
    while (n_open := running.n_open()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return n_open


def cache_is_free(engine: WatchedEngine) -> bool:
    """Whether a request gets all cells there are: those that a lost sequence holds would be missing."""
    n_prompt = engine.settings.n_ctx - SPARE_TOKENS
    try:
        filler = engine.vocab.tokenize(" the river") * n_prompt
        answer = engine.submit(
            engine.new_sequence(), False, filler[:n_prompt], GenerateOptions(max_tokens=SPARE_TOKENS)
        )
        return answer.completion().usage.completion_tokens > 0
    except EdgeSpecError:
        return False


def percentile(values: Sequence[float], of_100: float) -> float:
    """By nearest rank; NaN of nothing."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(of_100 / 100 * len(ranked)))] if ranked else float("nan")


def lines(soaked: Soaked) -> list[str]:
    times = soaked.first_text_seconds
    n_left = sum(1 for one in soaked.outcomes if one.leaves is not Leaves.NEVER)
    mib = [f"{n_bytes / 2**20:.1f}" for n_bytes in (max(soaked.rss_bytes, default=0), soaked.grown_bytes)]
    return [
        f"{len(soaked.outcomes)} requests, {n_left} hung up, {sum(1 for one in soaked.outcomes if one.error)} errors",
        f"first text: p50 {percentile(times, 50):.3f} s, p99 {percentile(times, 99):.3f} s ({len(times)} streams)",
        f"memory: at most {mib[0]} MiB, {mib[1]} MiB more at the end than in the first quarter",
        f"left over: {soaked.n_open} open requests, {soaked.n_held} sequences kept for reuse",
    ]
