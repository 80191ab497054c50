"""Ways to decode one target with one draft, on cores of their own: plain, draft-free, in turn, side by side.

All ways share the target, so that they can be compared turn by turn. Both models have read the prompt before the clock
of an answer starts. Knows no command line.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from edgespec.backend.llama.target import LlamaTarget
from edgespec.draft.guard import LATE, GuardedDrafter
from edgespec.draft.lookup import LookupDrafter
from edgespec.draft.model import ModelDrafter
from edgespec.draft.pipeline import Pipeline, PipelinedDrafter
from edgespec.draft.trunk import Trunk
from edgespec.errors import EngineFailure
from edgespec.events import Notice, RoundReport
from edgespec.spec.acceptance import Acceptance
from edgespec.spec.cost import CostTable, DraftCosts
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.measured import MeasuredPolicy
from edgespec.spec.policy import FixedPolicy, Policy
from edgespec.spec.ports import Drafter, Plan
from edgespec.spec.round import Drafting, Loop
from edgespec.spec.sequence import SequenceState
from edgespec.spec.step import StepModel
from edgespec.spec.verify import PathVerifier
from edgespec.tune.measure import Bench

SEQUENCE = 0
GREEDY = SamplingSettings()
WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16)
# A network that reads a prompt beside us is waited for so long.
_READING_SECONDS = 120.0


class Way(str, Enum):
    """The values are the keys of the JSON object. `_one`: the target on one core."""

    PLAIN_ONE = "plain_one"
    PLAIN = "plain"
    SERIAL_ONE = "serial_one"
    SERIAL = "serial"
    OVERLAPPED = "overlapped"
    DRAFT_FREE = "draft_free"


@dataclass(frozen=True, slots=True)
class Cores:
    """Which cores models run on: `target` alone while a way uses one, `draft` beside it; `all_` else."""

    target: frozenset[int]
    draft: frozenset[int]
    all_: frozenset[int]


def pin(cores: frozenset[int]) -> None:
    """This thread, and those it starts later, run on these cores only. Where the system cannot, nothing is done."""
    if hasattr(os, "sched_setaffinity") and cores:
        os.sched_setaffinity(0, cores)


@dataclass(frozen=True, slots=True)
class Answered:
    """seconds: from when both models had read the prompt. reading_seconds: what the draft took for that in turn."""

    tokens: tuple[int, ...]
    seconds: float
    reading_seconds: float
    rounds: tuple[RoundReport, ...]


@dataclass(slots=True)
class Arm:
    """One way. policy: keeps what it learns from answer to answer. make: its drafters; None are plain decoding.
    answers: those that count.
    """

    way: Way
    n_threads: int
    cores: frozenset[int]
    policy: Policy
    make: Callable[[Law], tuple[Drafter, ...]]
    answers: list[Answered] = field(default_factory=list)


class Arms:
    """target: owned by the caller. make_step: opens the draft on so many threads. n_threads: all that the target may
    have. tables: what passes cost with one thread and with all. costs: of the draft in turn, on one core and on all.
    experience: what policies know of the draft beforehand, made anew for each. size: tokens that the draft makes in
    every round, None for what the policy chooses.
    """

    def __init__(
        self,
        target: LlamaTarget,
        make_step: Callable[[int], StepModel],
        cores: Cores,
        n_threads: int,
        tables: tuple[CostTable, CostTable],
        costs: tuple[DraftCosts, DraftCosts],
        name: str,
        experience: Callable[[], Acceptance] = Acceptance,
        size: int | None = None,
    ) -> None:
        self._target = target
        self._steps: list[StepModel] = []
        for count, where in ((1, cores.target), (n_threads, cores.all_)):
            pin(where)  # a process of its own inherits it
            self._steps.append(make_step(count))
        trunks = [Trunk(step) for step in self._steps]
        self.pipeline = Pipeline(pinned(make_step, cores.draft), name)
        self._before = self.pipeline.counts
        one, many = tables
        n_left = max(1, n_threads - 1)
        beside = one if n_left == 1 else many

        def policy(table: CostTable, costs: DraftCosts) -> Policy:
            if size is not None:
                return FixedPolicy(size)
            made = MeasuredPolicy(table, {name: costs})
            made.acceptance.recall(experience())
            return made

        self.arms = (
            Arm(Way.PLAIN_ONE, 1, cores.target, FixedPolicy(0), lambda _law: ()),
            Arm(Way.PLAIN, n_threads, cores.all_, FixedPolicy(0), lambda _law: ()),
            Arm(Way.SERIAL_ONE, 1, cores.target, policy(one, costs[0]), _in_turn(trunks[0])),
            Arm(Way.SERIAL, n_threads, cores.all_, policy(many, costs[1]), _in_turn(trunks[1])),
            Arm(Way.OVERLAPPED, n_left, cores.all_ - cores.draft, policy(beside, costs[0]), self._beside),
            Arm(Way.DRAFT_FREE, n_threads, cores.all_, MeasuredPolicy(many), _free(LookupDrafter())),
        )

    def warm_up(
        self, prompts: Seq[Seq[int]], n_tokens: int, end_tokens: frozenset[int], done: Callable[[], None]
    ) -> None:
        """Let every arm answer these, so that policies are as in a chat that has run for a while. Nothing of it counts:
        neither the answers nor what the pipeline hit.
        """
        for prompt in prompts:
            for arm in self.arms:
                self.answer(arm, prompt, n_tokens, end_tokens)
                done()
        for arm in self.arms:
            arm.answers.clear()
        self._before = self.pipeline.counts

    @property
    def hit_rate(self) -> float:
        """The share of passes beside the draft after which the next draft was there, of answers that count."""
        counts = self.pipeline.counts
        n_hits = counts.n_hits - self._before.n_hits
        n_passes = n_hits + counts.n_misses - self._before.n_misses
        return n_hits / n_passes if n_passes else 0.0

    def answer(self, arm: Arm, prompt: Seq[int], n_tokens: int, end_tokens: frozenset[int]) -> Answered:
        """Decode with nothing of another answer cached; what the arm's drafter did wrong is raised."""
        pin(arm.cores)
        self._target.set_threads(arm.n_threads)
        law = Law(GREEDY)
        state = SequenceState.start(SEQUENCE, list(prompt), law, n_tokens, end_tokens)
        try:
            self._read(prompt)
            drafters = arm.make(law)
            for drafter in drafters:
                drafter.begin(SEQUENCE, np.array(prompt, np.int32))
            reading = self._let_read(drafters)
            guarded = tuple(GuardedDrafter(one, _N_ANY, time.perf_counter, _fail) for one in drafters)
            loop = Loop(self._target, arm.policy, PathVerifier(), time.perf_counter)
            rounds: list[RoundReport] = []
            began = time.perf_counter()
            while state.finish is None:
                rounds += loop.run([Drafting.of(state, guarded)])
            seconds = time.perf_counter() - began
            for drafter in drafters:
                drafter.end(SEQUENCE)
        finally:
            self._target.release(SEQUENCE)
        answered = Answered(tuple(state.tokens[state.n_prompt :]), seconds, reading, tuple(rounds))
        arm.answers.append(answered)
        return answered

    def _read(self, prompt: Seq[int]) -> None:
        chunk = self._target.capabilities.max_chunk
        tokens = np.array(prompt[:-1], np.int32)
        for start in range(0, len(tokens), chunk):
            self._target.extend(SEQUENCE, tokens[start : start + chunk])

    def _let_read(self, drafters: Seq[Drafter]) -> float:
        """Wait until each has read its prompt."""
        began = time.perf_counter()
        for drafter in drafters:
            if isinstance(drafter, ModelDrafter):  # it reads when it is asked
                drafter.propose(SEQUENCE, Plan(max_nodes=1))
            while drafter.behind(SEQUENCE) and time.perf_counter() - began < _READING_SECONDS:
                time.sleep(0.001)
        return time.perf_counter() - began

    def _beside(self, law: Law) -> tuple[Drafter, ...]:
        return (PipelinedDrafter(self.pipeline, law),)

    def close(self) -> None:
        self.pipeline.close()
        for step in self._steps:
            step.close()


# Proposals are checked against the target's vocabulary by the network already.
_N_ANY = 1 << 30


def _fail(notice: Notice) -> None:
    """A draft that was late on a busy machine is measured as it was; a wrong one makes the figures worthless."""
    if notice.code != LATE:
        raise EngineFailure("the measurement", notice.message, "mend the draft and measure again")


def pinned(make_step: Callable[[int], StepModel], cores: frozenset[int]) -> Callable[[], StepModel]:
    def make() -> StepModel:
        pin(cores)
        return make_step(1)

    return make


def _in_turn(trunk: Trunk) -> Callable[[Law], tuple[Drafter, ...]]:
    return lambda law: (ModelDrafter(trunk, law, time.perf_counter),)


def _free(lookup: LookupDrafter) -> Callable[[Law], tuple[Drafter, ...]]:
    return lambda _law: (lookup,)


def measure_tables(
    target: LlamaTarget, n_threads: int, cores: Cores, contexts: Seq[int], n_samples: int
) -> tuple[CostTable, CostTable]:
    """(one thread on the target's core, all threads): medians of passes taken in turns."""
    bench = Bench(target, time.perf_counter)
    rows: list[tuple[list[float], list[float]]] = []
    for context in contexts:
        while bench.read(context, target.capabilities.max_chunk):
            pass
        times: tuple[list[list[float]], list[list[float]]] = ([[] for _ in WIDTHS], [[] for _ in WIDTHS])
        for _ in range(n_samples):
            for place, (count, where) in enumerate(((1, cores.target), (n_threads, cores.all_))):
                pin(where)
                target.set_threads(count)
                for column, width in enumerate(WIDTHS):
                    times[place][column].append(bench.pass_seconds(width))
        rows.append(([float(np.median(t)) for t in times[0]], [float(np.median(t)) for t in times[1]]))
    target.release(SEQUENCE)
    one = CostTable(tuple(contexts), WIDTHS, tuple(tuple(row[0]) for row in rows))
    many = CostTable(tuple(contexts), WIDTHS, tuple(tuple(row[1]) for row in rows))
    return one, many


@contextmanager
def on_all_cores(cores: Cores) -> Iterator[None]:
    """Give this thread all cores back afterwards."""
    try:
        yield
    finally:
        pin(cores.all_)
