"""A step model that lives in a process of its own, for drafts whose native code may hang or crash.

Contract: `RemoteStep` is a StepModel. Its process loads the model by itself: the first use waits for that, and whoever
does not want to wait asks `is_there`. A call that takes too long kills the process; that, a dead process and nonsense
in the pipe raise StepLost: every cell is gone. A new process is started by a later call, not before a pause that
doubles with each loss in a row; until it has loaded, calls raise StepLost at once, and the first one must start at cell
0. Numbers pass through as they are, NaN included. Knows nothing of drafting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from edgespec.backend.child import Child, Gone
from edgespec.backend.frames import Frame, Kind
from edgespec.errors import EngineFailure
from edgespec.processes import child_command
from edgespec.spec.ports import IntArray
from edgespec.spec.step import Ranked, StepLimits

# For drafts of which nothing was measured: a step takes milliseconds, but a first one may compile.
CALL_SECONDS = 10.0
# Loading and compiling a draft from a slow disk.
OPEN_SECONDS = 120.0
# What a call still gets once nobody waits for its answer any more: a healthy one ends by itself, and costs no process;
# a user who has stopped an answer takes this for at once.
GRACE_SECONDS = 0.2
# Pauses before a new child: one hiccup is soon forgotten, a draft that always dies costs little.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 120.0
# Calls that went well before the pauses start over.
_FORGIVEN = 256

_REMEDY = "the answer goes on without it; if this happens again, choose another draft or '--draft off'"

Command = Callable[[str], Sequence[str]]


class StepLost(EngineFailure):
    """The step model lost its cells: read again from cell 0."""


@dataclass(frozen=True, slots=True)
class Patience:
    """When a call counts as hung: beyond call_seconds, and token_seconds more for each token that is only read."""

    call_seconds: float = CALL_SECONDS
    token_seconds: float = 0.0

    def of(self, call: Frame) -> float:
        n_tokens = len(call.arrays[0]) if call.kind is Kind.READ else 0
        return self.call_seconds + n_tokens * self.token_seconds


def step_command(spec: str) -> Sequence[str]:
    return child_command("edgespec.backend.remote_child", spec)


class RemoteStep:
    """A StepModel in a child. `spec` names it, as in `remote_spec`; `clock` gives seconds. patience may be changed.

    Raises EngineFailure where no process starts; all other trouble is raised by `limits`, `is_there` and the calls.
    n_starts: children so far. One thread uses it; `hurry` and `close` may be called from any.
    """

    def __init__(
        self,
        spec: str,
        name: str = "",
        patience: Patience | None = None,
        open_seconds: float = OPEN_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        command: Command = step_command,
    ) -> None:
        self.name = name or spec
        self.patience = patience or Patience()
        self.n_starts = 0
        self._spec = spec
        self._open_seconds = open_seconds
        self._clock = clock
        self._command = command
        self._limits: StepLimits | None = None
        self._child: Child | None = None
        self._ready: Child | None = None  # the child, once its model is known to be the right one
        self._is_empty = True  # whether it has read nothing
        self._is_closed = self._is_hurried = False
        self._again_at = -inf
        self._pause = FIRST_PAUSE_SECONDS
        self._n_good = 0
        self._start()

    @property
    def pid(self) -> int:
        """Of the living child, 0 without one."""
        return self._child.pid if self._child is not None else 0

    @property
    def limits(self) -> StepLimits:
        """Waits for the first child. Raises EngineFailure where its model does not load."""
        if self._limits is None:
            self._loaded(may_wait=True)
        assert self._limits is not None
        return self._limits

    def is_there(self) -> bool:
        """Whether the model is loaded. Starts a process where there is none. Raises StepLost where that has to wait, or
        did not go well.
        """
        return self._loaded(may_wait=False) is not None

    def run(self, tokens: IntArray, start: int, parents: IntArray | None = None) -> Ranked:
        arrays = (tokens,) if parents is None else (tokens, parents)
        answer = self._call(Frame(Kind.RUN, (start,), arrays), Kind.RANKED)
        ids, logits, log_sums = answer.arrays
        return Ranked(ids, logits, log_sums)

    def read(self, tokens: IntArray, start: int) -> None:
        self._call(Frame(Kind.READ, (start,), (tokens,)), Kind.DONE)

    def keep(self, cells: IntArray, start: int) -> None:
        self._call(Frame(Kind.KEEP, (start,), (cells,)), Kind.DONE)

    def hurry(self, is_urgent: bool) -> None:
        """Whether calls, also the one under way, get GRACE_SECONDS and no more. From any thread."""
        if not (is_urgent or self._is_hurried):
            return  # asked before every round
        self._is_hurried = is_urgent
        child = self._child
        if child is not None:
            child.limit(GRACE_SECONDS if is_urgent else inf)

    def close(self) -> None:
        """From any thread; a call under way raises StepLost."""
        self._is_closed = True
        self._end_child()

    def _call(self, call: Frame, expected: Kind) -> Frame:
        child = self._loaded(may_wait=self._limits is None)
        if child is None:
            raise self._absent("its new process is loading")
        if self._is_empty and (call.numbers[0] > 0 or call.kind is Kind.KEEP):
            raise self._absent("its process is new and has read nothing")
        answer = self._asked(child, call)
        if answer.kind is Kind.REFUSED:
            raise ValueError(answer.texts[0])
        if answer.kind is Kind.FAILED:
            raise EngineFailure(f"the draft {self.name}", answer.texts[0], _REMEDY)
        if answer.kind is not expected:
            raise self._lost(f"its process answered {answer.kind.name}")
        self._is_empty = False
        self._praise()
        return answer

    def _asked(self, child: Child, call: Frame) -> Frame:
        limit = self.patience.of(call)
        try:
            return child.ask(call, min(limit, GRACE_SECONDS) if self._is_hurried else limit)
        except Gone as error:
            raise self._lost(str(error)) from error
        except BaseException:  # also Ctrl-C: its answer would be taken for the next one's; raised again
            self._end_child()
            raise

    def _loaded(self, may_wait: bool) -> Child | None:
        """The child with its model loaded, None while that takes its time."""
        child = self._child or self._start()
        if child is self._ready or (child.is_loading and not may_wait):
            return self._ready
        try:
            frame = child.first()
        except Gone as error:
            raise self._lost(str(error)) from error
        except BaseException:  # as in _asked
            self._end_child()
            raise
        self._learn(frame)
        self._ready, self._is_empty = child, True
        return child

    def _start(self) -> Child:
        if self._is_closed:
            raise self._absent("it was closed")
        if self._clock() < self._again_at:
            raise self._absent("its process was lost and pauses")
        self.n_starts += 1
        try:
            child = self._child = Child(self._command(self._spec), self._open_seconds)
        except OSError as error:
            self._give_up()
            raise EngineFailure(f"cannot start a process for the draft {self.name}", str(error), _REMEDY) from error
        if self._is_closed:  # meanwhile, by another thread
            self._end_child()
            raise self._absent("it was closed")
        return child

    def _learn(self, frame: Frame) -> None:
        if frame.kind is Kind.FAILED and len(frame.texts) == 3:
            self._give_up()
            raise StepLost(*frame.texts)
        if frame.kind is not Kind.READY or len(frame.numbers) != 6:
            raise self._lost(f"its process began with {frame.kind.name}")
        n_ctx, n_vocab, n_ranked, max_rows, max_chunk, branches = frame.numbers
        limits = StepLimits(n_ctx, n_vocab, n_ranked, max_rows, max_chunk, bool(branches))
        if self._limits not in (None, limits):
            raise self._lost(f"its new process says {limits}, not {self._limits}")
        self.name, self._limits = frame.texts[0], limits

    def _absent(self, why: str) -> StepLost:
        return StepLost(f"the draft {self.name}", why, _REMEDY)

    def _lost(self, why: str) -> StepLost:
        self._give_up()
        return self._absent(why)

    def _give_up(self) -> None:
        self._end_child()
        self._n_good = 0
        self._again_at = self._clock() + self._pause
        self._pause = min(2.0 * self._pause, LONGEST_PAUSE_SECONDS)

    def _praise(self) -> None:
        self._n_good += 1
        if self._n_good == _FORGIVEN:
            self._pause = FIRST_PAUSE_SECONDS

    def _end_child(self) -> None:
        child, self._child, self._ready = self._child, None, None
        if child is not None:
            child.end()
