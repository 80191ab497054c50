"""A target whose passes take as many threads as the machine has to spare: the hands of `edgespec.engine.pace`.

It is a target like the one it wraps. Each pass gets a limit; one that is given up is repeated at once with one thread,
from the same cache and at the same width, so that nobody notices but the clock. Used from one thread, except
`interrupt`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from collections.abc import Sequence as Seq
from functools import partial
from typing import TypeVar

from edgespec.backend.cores import CoreReader, CoreUse
from edgespec.backend.settings import LlamaSettings
from edgespec.engine.levels import Level, ladder
from edgespec.engine.pace import Pace, PaceStatus
from edgespec.engine.sockets import Steppable
from edgespec.events import Notice
from edgespec.spec.cost import CostTable
from edgespec.spec.ports import Capabilities, Commit, IntArray, Rows, SequenceId, VerifyRequest
from edgespec.tune.tuning import Tuned

# Counters move in ticks of 10 ms, and reading them takes 0.1 ms.
READ_EVERY_SECONDS = 0.25

Clock = Callable[[], float]
Reprice = Callable[[CostTable], None]
T = TypeVar("T")


def paced(
    target: Steppable, settings: LlamaSettings, tuned: Tuned | None = None, reprice: Reprice | None = None
) -> PacedTarget | None:
    """None where there is nothing to step down from: one thread, or layers on a GPU, which are not aborted in time.

    settings: those the target runs with. tuned: what was measured with just these threads. reprice: told of the table
    that holds from now on, between two rounds.
    """
    levels = ladder(settings.n_threads, settings.n_threads_batch, tuned)
    if len(levels) == 1 or settings.n_gpu_layers != 0:
        return None
    return PacedTarget(target, Pace(levels), CoreReader().use, reprice)


class PacedTarget:
    """An `edgespec.engine.sockets.Interruptible` over another one.

    read_use: what the cores were used for since the call before; own_clock: processor seconds of this process.
    """

    def __init__(
        self,
        target: Steppable,
        pace: Pace,
        read_use: Callable[[], CoreUse],
        reprice: Reprice | None = None,
        clock: Clock = time.perf_counter,
        own_clock: Clock = time.process_time,
    ) -> None:
        self._target = target
        self._pace = self._alone = pace
        self._beside: Pace | None = None
        self._read_use = read_use
        self._reprice = reprice
        self._clock = clock
        self._own_clock = own_clock
        self._level = self._priced = pace.level
        self._limit = math.inf
        self._restriction: Collection[int] | None = None
        self._read_at = -math.inf
        self.late = target.late

    @property
    def status(self) -> PaceStatus:
        """A frozen copy; may be asked for from any thread."""
        return self._pace.status

    def notice(self) -> Notice | None:
        """What a user should know about an answer that is being made now; None at full speed."""
        if self._pace.undisturbed:
            return None
        status = self._pace.status
        return cores_taken(status) if self._pace.stepped_down else cores_shared(status)

    # -- between passes ---------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Between two rounds: look at the counters when it is time, take the steps that are due, and reprice."""
        now = self._clock()
        if now - self._read_at >= READ_EVERY_SECONDS:
            self._read_at = now
            self._pace.used(self._read_use())
        self._take_level()
        level = self._level
        if level is not self._priced:
            self._priced = level
            if self._reprice is not None and level.table is not None:
                self._reprice(level.table)

    def share(self, levels: Seq[Level]) -> None:
        """What passes may have while something else works beside them; () for nothing else than alone."""
        self._beside = Pace(levels) if levels else None

    def leave_cores(self, leave: bool) -> None:
        """From the next pass on, take the threads of `share`, or all of them again."""
        pace = self._beside if leave and self._beside is not None else self._alone
        if pace is not self._pace:
            self._pace = pace
            self._take_level()

    def restrict(self, counts: Collection[int]) -> None:
        """Until `unrestrict` step among these thread counts only; with none of them threads stay as they were wanted,
        and passes run to their end.
        """
        self._restriction = counts
        self._alone.restrict(counts)
        self._take_level()

    def unrestrict(self) -> None:
        self._restriction = None
        self._alone.unrestrict()

    def _take_level(self) -> None:
        level = self._pace.level
        if level is not self._level:
            self._level = level
            self._target.set_threads(level.n_threads, level.n_batch)

    def retune(self, levels: Seq[Level]) -> None:
        """Other settings of the same target, say because it has been tuned meanwhile. Between two rounds. What was
        shared before is `share`d anew by whoever shares.
        """
        self._pace = self._alone = Pace(levels)
        self.reopened()
        if self._restriction is not None:
            self._alone.restrict(self._restriction)
        self._take_level()

    def reopened(self) -> None:
        """The target has a new cache, which knows of no limit."""
        self._limit = math.nan

    # -- passes -----------------------------------------------------------------------------------------------------

    def extend(self, sequence: SequenceId, tokens: IntArray) -> None:
        n, context = len(tokens), self._target.length(sequence)
        limit = self._pace.extend_limit(n, context)
        _, seconds = self._run(partial(self._target.extend, sequence, tokens), limit)
        self._pace.extended(n, context, seconds)

    def verify(self, requests: Seq[VerifyRequest], width: int) -> list[Rows]:
        context = max([self._target.length(one.sequence) for one in requests])
        limit = self._pace.verify_limit(width, context)
        rows, seconds = self._run(partial(self._target.verify, requests, width), limit)
        self._pace.verified(width, context, seconds)
        return rows

    def _run(self, run: Callable[[], T], limit: float) -> tuple[T, float]:
        """What the pass gave, and its seconds: of the repeated one, if it was repeated."""
        if limit != self._limit:
            self._limit_passes(limit)
        started = self._clock()
        try:
            done = run()
        except self.late:
            self._pace.gave_up(self._clock() - started)
            return self._repeat(run, limit)
        return done, self._clock() - started

    def _repeat(self, run: Callable[[], T], limit: float) -> tuple[T, float]:
        self._take_level()
        self._limit_passes(math.inf)
        started, own_started = self._clock(), self._own_clock()
        done = run()
        seconds = self._clock() - started
        self._pace.repeated(seconds, limit, self._own_clock() - own_started)
        return done, seconds

    def _limit_passes(self, seconds: float) -> None:
        self._limit = seconds
        self._target.limit_passes(seconds)

    # -- the same as the wrapped one --------------------------------------------------------------------------------

    @property
    def capabilities(self) -> Capabilities:
        return self._target.capabilities

    @property
    def interrupted(self) -> type[Exception]:
        return self._target.interrupted

    def commit(self, sequence: SequenceId, commit: Commit) -> IntArray:
        return self._target.commit(sequence, commit)

    def rewind(self, sequence: SequenceId, length: int) -> int:
        return self._target.rewind(sequence, length)

    def length(self, sequence: SequenceId) -> int:
        return self._target.length(sequence)

    def release(self, sequence: SequenceId) -> None:
        self._target.release(sequence)

    def interrupt(self) -> None:
        self._target.interrupt()

    def resume(self) -> None:
        self._target.resume()

    def close(self) -> None:
        self._target.close()


def cores_taken(status: PaceStatus) -> Notice:
    threads = f"{status.n_threads} thread{'s' * (status.n_threads > 1)} instead of {status.n_wanted}"
    if status.taken is None or status.taken < 0.05:
        used = "other programs take the cores"
    else:
        used = f"other programs use {status.taken:.1f} of {status.n_cores} cores"
    return Notice("cores-taken", f"{used}: running with {threads} until they are free")


def cores_shared(status: PaceStatus) -> Notice:
    return Notice(
        "cores-taken",
        f"other programs use {status.taken or 0.0:.1f} of {status.n_cores} cores, but an exact answer keeps its "
        f"{status.n_wanted} threads: it is slow until they are free",
    )
