"""A policy on a virtual clock: the real round loop with a target and a drafter that only take time.

Time is counted in plain passes, or in seconds, as the machine's curve says. The target's pass over n rows takes
curve[n], with noise; the drafter takes its steps in turn with the target, or on a second device beside it.
Contract: deterministic for a seed; knows no model, no tokens that mean anything, and no real clock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from random import Random

import numpy as np

from edgespec.spec.cost import CostTable
from edgespec.spec.latency import Beside
from edgespec.spec.policy import Policy
from edgespec.spec.ports import Capabilities, Commit, FloatArray, IntArray, Rows, TokenLaw, VerifyRequest
from edgespec.spec.predict import tokens_per_pass
from edgespec.spec.round import Drafting, Loop
from edgespec.spec.sequence import SequenceState
from edgespec.spec.simulate_devices import BesideDrafter, Clock, Speed, TurnDrafter
from edgespec.spec.simulate_text import Process
from edgespec.spec.tree import DraftTree

_N_VOCAB = 1 << 20
_WIDTHS = (*range(1, 17), 20, 24, 32)


@dataclass(frozen=True, slots=True)
class Machine:
    """curve[n]: a pass of n rows, curve[1] a plain one. draft_seconds: of one drafted token. noise: in nats, per pass.

    beside: a second device drafts during the pass, for its own chain and for what it ranks next: `ranks` are P(the
    truth is its guess of rank 2, 3, ... | it is not the first one). handover_seconds: per draft. read_seconds: of a
    token that the drafter has to read first; 0 is a drafter that follows by itself. hiccups: the share of passes that
    take four times as long. drift: the growth of every time per pass, as of a machine that warms up.
    """

    curve: tuple[float, ...]
    draft_seconds: float = 0.0
    noise: float = 0.03
    beside: Beside | None = None
    ranks: tuple[float, ...] = ()
    handover_seconds: float = 0.0
    read_seconds: float = 0.0
    hiccups: float = 0.0
    drift: float = 0.0

    def table(self) -> CostTable:
        """What measuring it without noise would give."""
        widths = tuple(width for width in _WIDTHS if width < len(self.curve))
        return CostTable((0,), widths, (tuple(self.curve[width] for width in widths),))

    def oracle(self, acceptance: float, max_nodes: int = 15) -> float:
        """Seconds per token of the best chain length for a known constant acceptance, plain decoding included."""
        return min(
            (self.curve[1 + n] + n * self.draft_seconds) / tokens_per_pass(acceptance, n) for n in range(max_nodes + 1)
        )


def line(alpha: float, widest: int = 32) -> tuple[float, ...]:
    """A curve that grows by `alpha` plain passes per further row."""
    return tuple(1.0 + alpha * max(0, rows - 1) for rows in range(widest + 1))


def through(points: Seq[tuple[int, float]]) -> tuple[float, ...]:
    """A curve with steps: for each rows the seconds of the next of `points`, in units of the first."""
    return tuple(
        next(seconds for width, seconds in points if rows <= width) / points[0][1] for rows in range(points[-1][0] + 1)
    )


class _Target:
    """Takes its time and knows the true text: the token at each position is its position."""

    def __init__(self, machine: Machine, drafter: TurnDrafter, clock: Clock, seed: int) -> None:
        self.capabilities = Capabilities(1 << 20, _N_VOCAB, len(machine.curve) - 1, 512, 1, True)
        self._drafter = drafter
        self._machine = machine
        self._clock = clock
        self._random = Random(seed)
        self._n_passes = 0

    def verify(self, requests: Seq[VerifyRequest], width: int) -> list[Rows]:
        machine, self._n_passes = self._machine, self._n_passes + 1
        seconds = machine.curve[width] * math.exp(self._random.gauss(0.0, machine.noise))
        seconds *= (1.0 + machine.drift) ** self._n_passes
        seconds *= 4.0 if self._random.random() < machine.hiccups else 1.0
        if machine.beside is not None and isinstance(self._drafter, BesideDrafter) and self._drafter.is_busy:
            seconds *= 1.0 + machine.beside.target_slowdown
        self._clock.now += seconds
        return [_NoRows() for _ in requests]

    def commit(self, sequence: int, commit: Commit) -> IntArray:
        return commit.tokens[-1:]

    def extend(self, sequence: int, tokens: IntArray) -> None:
        """Nothing is kept."""

    def rewind(self, sequence: int, length: int) -> int:
        return length

    def length(self, sequence: int) -> int:
        return 0

    def release(self, sequence: int) -> None:
        """Nothing is kept."""


class _NoRows:
    def logits(self, row: int) -> FloatArray:
        raise AssertionError("the simulated verifier reads no logits")


class _Truth:
    """A verifier that knows the text."""

    def walk(
        self, tree: DraftTree, rows: Rows, law: TokenLaw, history: Seq[int], limit: int, end_tokens: frozenset[int]
    ) -> Commit:
        n_right = 0
        for token in tree.tokens.tolist():
            if token != len(history) + n_right or n_right == limit - 1:
                break
            n_right += 1
        tokens = np.arange(len(history), len(history) + n_right + 1, dtype=np.int32)
        return Commit(np.arange(n_right, dtype=np.int32), tokens)


class _NoLaw:
    def choose(self, logits: FloatArray, history: Seq[int]) -> int:
        raise AssertionError("the simulated verifier asks no law")


@dataclass(frozen=True, slots=True)
class Run:
    """times[i]: when token i was out. n_rounds, n_drafted: passes and drafted tokens. hit_rate: of a second device."""

    times: tuple[float, ...]
    n_rounds: int
    n_drafted: int
    hit_rate: float = 0.0

    @property
    def seconds_per_token(self) -> float:
        return self.times[-1] / len(self.times)


def simulate(
    policy: Policy, machine: Machine, process: Process, n_tokens: int, seed: int = 0, n_prompt: int = 1
) -> Run:
    """Decode `n_tokens` of one sequence, after a prompt of `n_prompt` that the target has read."""
    clock = Clock()
    drafter = _drafter(machine, process, clock, seed + 1)
    target = _Target(machine, drafter, clock, seed)
    state = SequenceState.start(0, list(range(n_prompt)), _NoLaw(), n_tokens, frozenset())
    drafter.begin(0, np.arange(n_prompt, dtype=np.int32))
    loop = Loop(target, policy, _Truth(), clock)
    times: list[float] = []
    n_rounds = n_drafted = 0
    while state.finish is None:
        report = loop.run([Drafting.of(state, (drafter,))])[0]
        times += [clock.now] * len(report.tokens)
        n_rounds, n_drafted = n_rounds + 1, n_drafted + report.n_drafted
    hit_rate = drafter.n_hits / max(1, drafter.n_rounds) if isinstance(drafter, BesideDrafter) else 0.0
    return Run(tuple(times), n_rounds, n_drafted, hit_rate)


def _drafter(machine: Machine, process: Process, clock: Clock, seed: int) -> TurnDrafter:
    speed = Speed(machine.draft_seconds, machine.read_seconds, machine.handover_seconds)
    if machine.beside is None:
        return TurnDrafter(process, speed, clock)
    return BesideDrafter(process, speed, clock, machine.beside, machine.ranks, seed)
