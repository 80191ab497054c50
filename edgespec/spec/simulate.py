"""A policy on a virtual clock: the real round loop with a target and a drafter that only take time.

Time is counted in plain passes. The target's pass over n rows takes curve[n], the drafter's k tokens k * draft_seconds,
both with noise. How many of a draft's tokens are right is drawn from a process: constant or switching acceptance, or
text that copies itself in bursts. The drafter works in turn with the target, or on a second device beside it (its draft
for the outcome that came true is then ready with `hit_rate`).
Contract: deterministic for a seed; knows no model, no tokens that mean anything, and no real clock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from random import Random
from typing import Protocol

import numpy as np

from edgespec.spec.cost import CostTable
from edgespec.spec.policy import Policy
from edgespec.spec.ports import Capabilities, Commit, FloatArray, IntArray, Needs, Plan, Rows, TokenLaw, VerifyRequest
from edgespec.spec.predict import tokens_per_pass
from edgespec.spec.round import Drafting, Loop
from edgespec.spec.sequence import SequenceState
from edgespec.spec.tree import EMPTY, DraftTree, chain

_N_VOCAB = 1 << 20
_WIDTHS = (*range(1, 17), 20, 24, 32)


class Clock:
    """Virtual seconds."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True, slots=True)
class Guess:
    """A draft: how many of its first tokens are right, and what the drafter claims for each step."""

    n_right: int
    claims: tuple[float, ...]


class Process(Protocol):
    def guess(self, position: int, n_tokens: int) -> Guess | None:
        """The draft of up to `n_tokens` after `position` tokens of output; None if the drafter has nothing to say."""


class Steady:
    """Each token is right with a fixed probability, which moves on to the next of `acceptances` every `period` tokens.

    `claim` is what the drafter says instead, whatever the truth.
    """

    def __init__(self, acceptances: Seq[float], period: int = 300, claim: float = 0.6, seed: int = 0) -> None:
        self._acceptances = tuple(acceptances)
        self._period = period
        self._claim = claim
        self._random = Random(seed)

    def acceptance(self, position: int) -> float:
        return self._acceptances[position // self._period % len(self._acceptances)]

    def guess(self, position: int, n_tokens: int) -> Guess:
        n_right = 0
        while n_right < n_tokens and self._random.random() < self.acceptance(position + n_right):
            n_right += 1
        return Guess(n_right, (self._claim,) * n_tokens)


class Copies:
    """Text that copies earlier text in bursts, and a look-up that claims by the length of its match.

    A burst has `burst` tokens on average and follows `gap` tokens of other text, where one position in five has a match
    by chance, mostly wrong. The claim rises with the match: what such a match is worth here, off by a factor `lie`.
    """

    _CLAIMS = ((3, 0.45), (4, 0.6), (6, 0.75), (10, 0.88), (16, 0.95))

    def __init__(self, n_tokens: int, burst: float = 24.0, gap: float = 60.0, lie: float = 1.0, seed: int = 0) -> None:
        self._random = Random(seed)
        self._lie = lie
        self._ends: list[tuple[int, int]] = []
        while len(self._ends) < n_tokens + 64:
            start = len(self._ends)
            self._ends += [(0, 0)] * math.ceil(self._random.expovariate(1.0 / gap))
            start = len(self._ends)
            length = math.ceil(self._random.expovariate(1.0 / burst))
            self._ends += [(start, start + length)] * length

    def guess(self, position: int, n_tokens: int) -> Guess | None:
        start, end = self._ends[position]
        match = position - start
        if end and match >= 3:
            return Guess(end - position, self._claims(match, n_tokens))
        if self._random.random() < 0.2:
            return Guess(int(self._random.random() < 0.15), self._claims(3, n_tokens))
        return None

    def _claims(self, match: int, n: int) -> tuple[float, ...]:
        return tuple(
            min(0.99, self._lie * max(claim for length, claim in self._CLAIMS if length <= match + i)) for i in range(n)
        )


@dataclass(frozen=True, slots=True)
class Machine:
    """curve[n]: a pass of n rows, curve[1] a plain one. draft_seconds: of one drafted token. noise: in nats, per pass.

    hit_rate > 0: a second device drafts during the pass, `slowdown` slows the target meanwhile. hiccups: the share of
    passes that take four times as long. drift: the growth of every time per pass, as of a machine that warms up.
    """

    curve: tuple[float, ...]
    draft_seconds: float = 0.0
    noise: float = 0.03
    hit_rate: float = 0.0
    slowdown: float = 0.0
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

    def __init__(self, machine: Machine, clock: Clock, seed: int) -> None:
        self.capabilities = Capabilities(1 << 20, _N_VOCAB, len(machine.curve) - 1, 512, 1, True)
        self.drafting = False
        self._machine = machine
        self._clock = clock
        self._random = Random(seed)
        self._n_passes = 0

    def verify(self, requests: Seq[VerifyRequest], width: int) -> list[Rows]:
        machine, self._n_passes = self._machine, self._n_passes + 1
        seconds = machine.curve[width] * math.exp(self._random.gauss(0.0, machine.noise))
        seconds *= (1.0 + machine.drift) ** self._n_passes
        seconds *= 4.0 if self._random.random() < machine.hiccups else 1.0
        self._clock.now += seconds * (1.0 + machine.slowdown * self.drafting)
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


class _Drafter:
    """Drafts from a process: true tokens, then one that is wrong."""

    name = "simulated"
    needs = Needs.TOKENS

    def __init__(self, process: Process, machine: Machine, clock: Clock, target: _Target, seed: int) -> None:
        self._process = process
        self._machine = machine
        self._clock = clock
        self._target = target
        self._random = Random(seed)
        self._position = 0
        self._ahead_since: float | None = None

    def begin(self, sequence: int, prompt: IntArray) -> None:
        self._position = len(prompt)

    def propose(self, sequence: int, plan: Plan) -> DraftTree:
        guess = self._process.guess(self._position, plan.max_nodes) if plan.max_nodes > 0 else None
        if guess is None:
            return EMPTY
        seconds = plan.max_nodes * self._machine.draft_seconds
        if self._ahead_since is not None and self._random.random() < self._machine.hit_rate:
            seconds = max(0.0, self._ahead_since + seconds - self._clock.now)
        self._clock.now += seconds
        tokens = [self._position + i + (i >= guess.n_right) for i in range(plan.max_nodes)]
        return chain(tokens, list(accumulate(guess.claims, mul)))

    def anticipate(self, sequence: int, tree: DraftTree) -> None:
        """With a second device the next draft starts now, if there is one under way."""
        busy = self._machine.hit_rate > 0.0 and len(tree) > 0
        self._ahead_since = self._clock.now if busy else None
        self._target.drafting = busy

    def observe(self, sequence: int, commit: Commit, rows: Rows, nodes: IntArray) -> None:
        self._position += len(commit.tokens)

    def end(self, sequence: int) -> None:
        """Nothing is kept."""


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
    """times[i]: when token i was out. n_rounds, n_drafted: passes and drafted tokens."""

    times: tuple[float, ...]
    n_rounds: int
    n_drafted: int

    @property
    def seconds_per_token(self) -> float:
        return self.times[-1] / len(self.times)


def simulate(policy: Policy, machine: Machine, process: Process, n_tokens: int, seed: int = 0) -> Run:
    """Decode `n_tokens` of one sequence, from an empty text but for one token."""
    clock = Clock()
    target = _Target(machine, clock, seed)
    drafter = _Drafter(process, machine, clock, target, seed + 1)
    state = SequenceState.start(0, [0], _NoLaw(), n_tokens, frozenset())
    drafter.begin(0, np.array([0], np.int32))
    loop = Loop(target, policy, _Truth(), clock)
    times: list[float] = []
    n_rounds = n_drafted = 0
    while state.finish is None:
        report = loop.run([Drafting(state, (drafter,))])[0]
        times += [clock.now] * len(report.tokens)
        n_rounds, n_drafted = n_rounds + 1, n_drafted + report.n_drafted
    return Run(tuple(times), n_rounds, n_drafted)
