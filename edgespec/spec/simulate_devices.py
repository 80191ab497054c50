"""Simulated drafters: one that works in turn with the target, and one that works on a second device beside its passes.

The second one runs the schedule step by step on a clock of its own: while a pass lasts it prepares drafts for one
outcome after another, most probable first; the verdict ends its epoch, with the draft for what came true or without it.
Whether an outcome was foreseen is drawn from the text's acceptance and from the drafter's ranks.
Contract: deterministic for a seed; true tokens are positions in the text, so nothing here means anything.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from random import Random

from edgespec.spec.latency import Beside
from edgespec.spec.outcomes import Outcome, outcomes
from edgespec.spec.ports import Commit, IntArray, Needs, Plan, Rows
from edgespec.spec.simulate_text import Process
from edgespec.spec.tree import EMPTY, DraftTree, chain

# Acceptance that the schedule assumes at first, and how fast it follows what it sees.
_ASSUMED = 0.6
_FOLLOWED = 0.05


class Clock:
    """Virtual seconds."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True, slots=True)
class Speed:
    """What a simulated drafter takes: per step, per token it reads first, and to hand a draft over."""

    step_seconds: float = 0.0
    read_seconds: float = 0.0
    handover_seconds: float = 0.0


class TurnDrafter:
    """Drafts from a process, which begins after the prompt: true tokens, then one that is wrong."""

    name = "simulated"
    needs = Needs.TOKENS

    def __init__(self, process: Process, speed: Speed, clock: Clock) -> None:
        self.position = 0
        self._process = process
        self._speed = speed
        self._clock = clock
        self._n_prompt = 0
        self._n_known = 0

    def begin(self, sequence: int, prompt: IntArray) -> None:
        self.position = self._n_prompt = len(prompt)
        self._n_known = 0

    def behind(self, sequence: int) -> int:
        """All but the last committed token, which the first step feeds."""
        return self.position - 1 - self._n_known if self._speed.read_seconds else 0

    def propose(self, sequence: int, plan: Plan) -> DraftTree:
        if plan.max_nodes <= 0:
            return EMPTY
        self._clock.now += self.behind(sequence) * self._speed.read_seconds + self._speed.handover_seconds
        self._n_known = self.position - 1
        return self._drafted(plan, self._speed.step_seconds)

    def _drafted(self, plan: Plan, step_seconds: float) -> DraftTree:
        guess = self._process.guess(self.position - self._n_prompt, plan.max_nodes)
        if guess is None:
            return EMPTY
        survivals = [s for s in accumulate(guess.claims, mul) if s >= plan.min_survival]
        self._clock.now += len(survivals) * step_seconds
        self._n_known = self.position + max(0, len(survivals) - 1)
        tokens = [self.position + i + (i >= guess.n_right) for i in range(len(survivals))]
        return chain(tokens, survivals) if tokens else EMPTY

    def anticipate(self, sequence: int, tree: DraftTree) -> None:
        """Nothing goes on during the pass."""

    def observe(self, sequence: int, commit: Commit, rows: Rows, nodes: IntArray) -> None:
        self._n_known = min(self._n_known, self.position + len(commit.path))
        self.position += len(commit.tokens)

    def end(self, sequence: int) -> None:
        """Nothing is kept."""


class SecondDevice:
    """A device that works through outcomes, step after step, until it is told to stop. It counts epochs."""

    def __init__(self, step_seconds: float) -> None:
        self.epoch = 0
        self._step_seconds = step_seconds
        self._ordered: list[Outcome] = []
        self._started = 0.0

    def start(self, ordered: list[Outcome], now: float) -> int:
        """Begin with these at `now`; returns the epoch under which their results are valid."""
        self.epoch += 1
        self._ordered = ordered
        self._started = now
        return self.epoch

    def stop(self, epoch: int, now: float) -> list[Outcome]:
        """What was finished by `now`, nothing if `epoch` is over. The step under way is given up."""
        if epoch != self.epoch:
            return []
        self.epoch += 1
        finished: list[Outcome] = []
        time = self._started
        for one in self._ordered:
            for _ in range(one.n_steps):
                time += self._step_seconds
            if time > now + 1e-9 * (1.0 + now):
                break
            finished.append(one)
        self._ordered = []
        return finished


class BesideDrafter(TurnDrafter):
    """The same on a second device: it drafts during the pass, for the size it was last asked for."""

    def __init__(
        self, process: Process, speed: Speed, clock: Clock, beside: Beside, ranks: Seq[float], seed: int
    ) -> None:
        super().__init__(process, speed, clock)
        self.n_rounds = self.n_hits = 0
        self._beside = beside
        self._device = SecondDevice(speed.step_seconds * (1.0 + beside.draft_slowdown))
        self._ranks = tuple(ranks)
        self._random = Random(seed)
        self._acceptance = _ASSUMED
        self._size = 0
        self._epoch = -1
        self._n_verified = 0
        self._started = 0.0
        self._ready = False

    @property
    def is_busy(self) -> bool:
        """True while a pass has the second device for company."""
        return self._epoch == self._device.epoch

    def behind(self, sequence: int) -> int:
        return 0 if self._ready else super().behind(sequence)

    def propose(self, sequence: int, plan: Plan) -> DraftTree:
        self._size = plan.max_nodes
        ready, self._ready = self._ready, False
        if plan.max_nodes <= 0:
            return EMPTY
        self.n_rounds += 1
        self.n_hits += ready
        self._clock.now = max(self._clock.now, self._started + self._beside.uncut_seconds)
        self._clock.now += self._speed.handover_seconds
        if not ready:
            self._clock.now += super().behind(sequence) * self._speed.read_seconds
        self._n_known = self.position - 1
        return self._drafted(plan, 0.0 if ready else self._speed.step_seconds)

    def anticipate(self, sequence: int, tree: DraftTree) -> None:
        """Begin with the likeliest outcome of the pass, if a draft was asked for at all."""
        self._n_verified = len(tree)
        if self._size <= 0:
            return
        survivals = [self._acceptance ** (1 + depth) for depth in range(len(tree) + 1)]
        ordered = outcomes(survivals, self._ranks, len(tree), self._size)
        self._started = self._clock.now
        self._epoch = self._device.start(ordered, self._started)

    def observe(self, sequence: int, commit: Commit, rows: Rows, nodes: IntArray) -> None:
        n_right = len(commit.path)
        finished = self._device.stop(self._epoch, self._clock.now)
        rank = self._rank(n_right)
        self._ready = any((one.n_accepted, one.rank) == (n_right, rank) for one in finished)
        for right in [True] * n_right + [False] * (n_right < self._n_verified):
            self._acceptance += _FOLLOWED * (right - self._acceptance)
        super().observe(sequence, commit, rows, nodes)

    def _rank(self, n_right: int) -> int:
        """Where the token that the target has said stands in the drafter's own order; 0 if it is in none of them."""
        bonus = self.position + n_right
        if n_right == self._n_verified:
            guess = self._process.guess(bonus - self._n_prompt, 1)
            if guess is not None and guess.n_right:
                return 1
        chance = self._random.random()
        for rank, share in enumerate(self._ranks, 2):
            chance -= share
            if chance < 0.0:
                return rank
        return 0
