"""What a draft network's steps cost here, alone and beside the target: the numbers that placements are chosen by.

Drives an open target and a draft that are handed in, and decides nothing. Times of the target come from its own table;
here only how much slower it gets while the draft works. Kept per target, draft, library build, machine and threads.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable
from collections.abc import Sequence as Seq
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import numpy as np

from edgespec.backend import machine
from edgespec.backend.probe import model_fingerprint
from edgespec.config import cache_dir
from edgespec.records import Records
from edgespec.spec.ports import Target
from edgespec.spec.step import StepModel
from edgespec.tune.measure import Bench, Clock, filler

# Raise when other things are measured: older times are then made anew.
VERSION = 1

# Steps timed per context; a median of fewer moves with every hiccup.
_STEPS = 9
# Rows of one run that are timed, for a draft that is drafted for in turn.
_WIDTHS = (1, 2, 4, 8)
# Turns of target passes alone and beside the draft, and passes in each.
_TURNS = 3
_PASSES = 4
# Texts the draft is timed at: attention makes later steps dearer.
CONTEXTS = (64, 512)


class SteppableTarget(Target, Protocol):
    def set_threads(self, n: int, n_batch: int = 0) -> None:
        """Of passes of one row, and of wider ones: 0 for as many."""


@dataclass(frozen=True, slots=True)
class StepTimes:
    """A draft on so many threads. step_seconds: of a run of one row, by tokens of text, as (context, seconds).
    read_seconds: per token of a text that is only read. row_seconds: of a run of so many rows, at the shortest text.
    """

    n_threads: int
    step_seconds: tuple[tuple[int, float], ...]
    read_seconds: float
    row_seconds: tuple[tuple[int, float], ...] = ()

    def step(self, context: int) -> float:
        """Seconds of one row at so many tokens of text: on a line through the measured ones, never below the least."""
        contexts = [at for at, _ in self.step_seconds]
        seconds = [s for _, s in self.step_seconds]
        if len(contexts) == 1:
            return seconds[0]
        slope = max(0.0, (seconds[-1] - seconds[0]) / (contexts[-1] - contexts[0]))
        return max(min(seconds), seconds[0] + slope * (context - contexts[0]))

    @property
    def call_seconds(self) -> float:
        """What a draft takes beyond its steps. Where the one before was right to its end, the first run reads its last
        token along.
        """
        rows = dict(self.row_seconds)
        return max(0.0, rows[2] - rows[1]) if 1 in rows and 2 in rows else 0.0


@dataclass(frozen=True, slots=True)
class PairTimes:
    """in_turn: the draft with the cores to itself, while the target waits. beside: the draft on a core of its own, the
    target on `target_threads`. kappa_target, kappa_draft: by what share each is slower while the other works.
    """

    in_turn: StepTimes
    beside: StepTimes
    target_threads: int
    kappa_target: float
    kappa_draft: float

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> PairTimes:
        """What `to_text` wrote. Raises ValueError for any other text."""
        try:
            raw = json.loads(text)
            found = cls(
                _step_times(raw["in_turn"]),
                _step_times(raw["beside"]),
                int(raw["target_threads"]),
                float(raw["kappa_target"]),
                float(raw["kappa_draft"]),
            )
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"these are no times of a pair: {error!r}") from error
        if not all(0.0 < s < math.inf for times in (found.in_turn, found.beside) for _, s in times.step_seconds):
            raise ValueError("times must be positive and finite")
        return found


def _step_times(raw: dict[str, object]) -> StepTimes:
    steps, threads, reading, rows = raw["step_seconds"], raw["n_threads"], raw["read_seconds"], raw["row_seconds"]
    if not isinstance(steps, list) or not steps or not isinstance(threads, int) or not isinstance(reading, float | int):
        raise ValueError("a draft's times are incomplete")
    if not isinstance(rows, list):
        raise ValueError("a draft's times are incomplete")
    return StepTimes(threads, _pairs(steps), float(reading), _pairs(rows))


def _pairs(raw: list[Any]) -> tuple[tuple[int, float], ...]:
    return tuple((int(at), float(seconds)) for at, seconds in raw)


def pair_records() -> Records:
    return Records(cache_dir() / "pairs.json")


def stored_pair(target: Path, draft: str, library: str, n_threads: int, records: Records) -> PairTimes | None:
    """What was found earlier of this draft (its fingerprint) with this target on this machine; None if nothing was."""
    try:
        return PairTimes.from_text(records.get(_key(target, draft, library, n_threads)) or "")
    except ValueError:
        return None


def save_pair(target: Path, draft: str, library: str, n_threads: int, records: Records, times: PairTimes) -> None:
    records.put(_key(target, draft, library, n_threads), times.to_text())


def _key(target: Path, draft: str, library: str, n_threads: int) -> str:
    return "|".join(
        ["pair", str(VERSION), model_fingerprint(target), draft, library, machine.describe(), f"{n_threads}"]
    )


def measure_pair(
    target: SteppableTarget, make: Callable[[int], StepModel], n_threads: int, apart: bool, clock: Clock
) -> PairTimes:
    """Seconds, not minutes; nothing else may run meanwhile. target: an idle one that nobody needs the cache of.
    n_threads: what it uses alone; make: opens the draft on so many threads. apart: one of the two needs no cores.

    Raises what the models raise.
    """
    with closing(make(max(1, n_threads))) as step:
        in_turn = time_steps(step, max(1, n_threads), clock)
    left = n_threads if apart else max(1, n_threads - 1)
    with closing(make(1)) as step:
        beside = time_steps(step, 1, clock)
    target.set_threads(left)
    try:
        kappa_target, kappa_draft = time_beside(target, lambda: make(1), clock)
    finally:
        target.set_threads(n_threads)
    return PairTimes(in_turn, beside, left, kappa_target, kappa_draft)


def time_steps(step: StepModel, n_threads: int, clock: Clock, contexts: Seq[int] = CONTEXTS) -> StepTimes:
    """Read a text of no meaning and time single rows at its end, at each of the contexts that fit."""
    limits = step.limits
    fitting = [at for at in contexts if at + _STEPS < limits.n_ctx] or [limits.n_ctx // 2]
    text = filler(fitting[-1], limits.n_vocab)
    timed: list[tuple[int, float]] = []
    reading: list[float] = []
    n_read = 0
    for context in fitting:
        while n_read < context:
            chunk = text[n_read : min(context, n_read + limits.max_chunk)]
            began = clock()
            step.read(chunk, n_read)
            reading.append((clock() - began) / len(chunk))
            n_read += len(chunk)
        timed.append((context, median(_run_seconds(step, context, clock) for _ in range(_STEPS))))
    widths = [n for n in _WIDTHS if n <= limits.max_rows]
    rows = [(n, median(_run_seconds(step, fitting[0], clock, n) for _ in range(_STEPS // 2))) for n in widths]
    return StepTimes(n_threads, tuple(timed), median(reading), tuple(rows))


def _run_seconds(step: StepModel, context: int, clock: Clock, n_rows: int = 1) -> float:
    began = clock()
    step.run(np.ones(n_rows, np.int32), context)
    return clock() - began


def time_beside(target: Target, make: Callable[[], StepModel], clock: Clock, width: int = 1) -> tuple[float, float]:
    """(kappa_target, kappa_draft): passes of `width` rows and single draft steps, each alone and with the other beside
    it, in turns; never below 0. `make` opens the draft, in the thread that will run it.
    """
    bench = Bench(target, clock)
    with ThreadPoolExecutor(1, "edgespec-pair") as thread:
        step = thread.submit(make).result()
        try:
            return _beside(bench, step, thread, clock, width)
        finally:
            thread.submit(step.close).result()


def _beside(bench: Bench, step: StepModel, thread: ThreadPoolExecutor, clock: Clock, width: int) -> tuple[float, float]:
    at = min(CONTEXTS[0], step.limits.max_chunk, step.limits.n_ctx // 2)
    while bench.read(at, at):
        pass
    thread.submit(step.read, filler(at, step.limits.n_vocab), 0).result()
    alone: list[float] = []
    beside: list[float] = []
    steps_alone: list[float] = []
    steps_beside: list[float] = []
    for _ in range(_TURNS):
        alone += [bench.pass_seconds(width) for _ in range(_PASSES)]
        steps_alone += thread.submit(_steps, step, at, clock).result()
        stop, begun = threading.Event(), threading.Event()
        stepping = thread.submit(_steps_until, step, at, clock, stop, begun)
        begun.wait()
        beside += [bench.pass_seconds(width) for _ in range(_PASSES)]
        stop.set()
        steps_beside += stepping.result()
    return max(0.0, median(beside) / median(alone) - 1.0), max(0.0, median(steps_beside) / median(steps_alone) - 1.0)


def _steps(step: StepModel, position: int, clock: Clock) -> list[float]:
    return [_run_seconds(step, position, clock) for _ in range(_PASSES)]


def _steps_until(
    step: StepModel, position: int, clock: Clock, stop: threading.Event, begun: threading.Event
) -> list[float]:
    try:
        seconds = [_run_seconds(step, position, clock)]
    finally:
        begun.set()  # also when it failed: the other thread waits for this
    while not stop.is_set():
        seconds.append(_run_seconds(step, position, clock))
    return seconds
