"""An engine served in this process on a free port, and what passed through it. Used by the tools that try the server.

Contract: requests go the whole way over a socket; what the engine said of them is kept beside, for the last few only,
so that a long run does not grow by it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx

from edgespec.engine import Answer, CancelToken, Engine, EngineOptions, Extras, GenerateOptions
from edgespec.engine.answer import PieceCallback, RoundCallback
from edgespec.errors import EngineFailure
from edgespec.events import Completion, Notice, RoundReport
from edgespec.server.access import Access
from edgespec.server.desk import Limits
from edgespec.server.running import Serving, listen, make_server
from edgespec.server.wire import Defaults
from edgespec.spec.ports import SequenceId

BEGIN_SECONDS = 30.0
# A long prompt on a slow machine is silent for minutes.
CLIENT_SECONDS = 600.0
# More requests than this are never asked after.
MOST_KEPT = 16


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as the engine had it. rounds: so far, each with the time of its end on time.perf_counter; the engine's
    thread adds to it.
    """

    answer: Answer
    rounds: list[tuple[float, RoundReport]]


@dataclass(slots=True)
class Log:
    """held: sequences that somebody may still use."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    asked: deque[Asked] = field(default_factory=lambda: deque(maxlen=MOST_KEPT))
    held: set[SequenceId] = field(default_factory=set)


class WatchedEngine(Engine):
    """Comes from `open_watched`."""

    log: Log

    def new_sequence(self) -> SequenceId:
        sequence = super().new_sequence()
        with self.log.lock:
            self.log.held.add(sequence)
        return sequence

    def release(self, sequence: SequenceId) -> None:
        with self.log.lock:
            self.log.held.discard(sequence)
        super().release(sequence)

    def submit(
        self,
        sequence: SequenceId,
        keep: bool,
        prompt: list[int],
        options: GenerateOptions | None = None,
        cancel: CancelToken | None = None,
        on_piece: PieceCallback | None = None,
        on_done: Callable[[Completion], None] | None = None,
        on_round: RoundCallback | None = None,
        notices: tuple[Notice, ...] = (),
    ) -> Answer:
        rounds: list[tuple[float, RoundReport]] = []

        def watch(report: RoundReport) -> None:
            rounds.append((time.perf_counter(), report))
            if on_round is not None:
                on_round(report)

        answer = super().submit(sequence, keep, prompt, options, cancel, on_piece, on_done, watch, notices)
        with self.log.lock:
            self.log.asked.append(Asked(answer, rounds))
            if not keep:  # the engine frees it with the answer
                self.log.held.discard(sequence)
        return answer

    def take_asked(self) -> list[Asked]:
        """Those since the last call, the oldest first."""
        with self.log.lock:
            asked = list(self.log.asked)
            self.log.asked.clear()
        return asked

    @property
    def n_held(self) -> int:
        return len(self.log.held)


def open_watched(model: str | None, options: EngineOptions, extras: Extras | None = None) -> WatchedEngine:
    """Raises what `Engine.open` raises."""
    engine = WatchedEngine.open(model, options, extras=extras)
    assert isinstance(engine, WatchedEngine)
    engine.log = Log()
    return engine


@dataclass(frozen=True, slots=True)
class Served:
    url: str
    port: int
    engine: WatchedEngine

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=CLIENT_SECONDS, trust_env=False)

    def n_open(self) -> int:
        """Answers under way and waiting."""
        with self.client() as client:
            samples = dict(line.rsplit(" ", 1) for line in client.get("/metrics").text.splitlines() if line[:1] != "#")
        return int(samples["edgespec_open_requests"])


@contextmanager
def served(engine: WatchedEngine, usual: GenerateOptions | None = None) -> Iterator[Served]:
    """Raises EngineFailure when the server does not begin. It is gone, with its thread, when the block is left."""
    begun = threading.Event()
    serving = Serving(Access(), Limits(), Defaults(usual or GenerateOptions()))
    with listen("127.0.0.1", 0) as listening:
        server = make_server(engine, serving, begun.set)
        thread = threading.Thread(target=lambda: server.run(sockets=[listening]), name="served")
        thread.start()
        try:
            if not begun.wait(BEGIN_SECONDS):
                raise EngineFailure("the server", f"it did not begin within {BEGIN_SECONDS:g} s", "try again")
            port = listening.getsockname()[1]
            yield Served(f"http://127.0.0.1:{port}", port, engine)
        finally:
            server.should_exit = True
            thread.join()
