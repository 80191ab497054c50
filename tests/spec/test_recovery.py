"""After a bad beginning the policy comes back, though asking the drafter costs as much as may be lost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from edgespec.spec.cost import CostTable
from edgespec.spec.ledger import EPS, Entry, replay
from edgespec.spec.measured import MeasuredPolicy
from edgespec.spec.policy import Reason
from edgespec.spec.ports import Capabilities, Commit, FloatArray, IntArray, Needs, Plan, Rows, VerifyRequest
from edgespec.spec.round import Drafting, Loop
from edgespec.spec.sequence import SequenceState
from edgespec.spec.simulate import line
from edgespec.spec.tree import EMPTY, DraftTree, chain
from edgespec.spec.verify import PathVerifier

CURVE = line(0.45)
WRONG = 999


class World:
    """The token at each position is its position; passes and calls take their time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.capabilities = Capabilities(1 << 20, 1000, len(CURVE) - 1, 512, 1, True)

    def __call__(self) -> float:
        return self.now

    def verify(self, requests: Sequence[VerifyRequest], width: int) -> list[Rows]:
        self.now += CURVE[width]
        return [NoRows() for _ in requests]

    def commit(self, sequence: int, commit: Commit) -> IntArray:
        return commit.tokens[-1:]

    def extend(self, sequence: int, tokens: IntArray) -> None: ...

    def rewind(self, sequence: int, length: int) -> int:
        return length

    def length(self, sequence: int) -> int:
        return 0

    def release(self, sequence: int) -> None: ...


class NoRows:
    def logits(self, row: int) -> FloatArray:
        return np.empty(0, np.float32)


class Counting:
    """The law of a text whose tokens are their positions."""

    def choose(self, logits: FloatArray, history: Sequence[int]) -> int:
        return len(history)


class Talker:
    """Sure of itself in every round, wrong up to position `turns`. To be asked takes time, also for a refusal."""

    name = "talker"
    needs = Needs.TOKENS

    def __init__(self, world: World, turns: int, asked_seconds: float) -> None:
        self.n_asked = 0
        self._world = world
        self._turns = turns
        self._asked_seconds = asked_seconds
        self._length = 0

    def begin(self, sequence: int, prompt: IntArray) -> None:
        self._length = len(prompt)

    def behind(self, sequence: int) -> int:
        return 0

    def propose(self, sequence: int, plan: Plan) -> DraftTree:
        self.n_asked += 1
        self._world.now += self._asked_seconds
        if plan.max_nodes <= 0:
            return EMPTY
        n = min(7, plan.max_nodes)
        first = self._length if self._length >= self._turns else WRONG
        return chain([first, *range(self._length + 1, self._length + n)], [0.93 ** (1 + i) for i in range(n)])

    def anticipate(self, sequence: int, tree: DraftTree) -> None: ...

    def observe(self, sequence: int, commit: Commit, rows: Rows, nodes: IntArray) -> None:
        self._length += len(commit.tokens)

    def end(self, sequence: int) -> None: ...


@pytest.mark.parametrize("asked_seconds", [0.5 * EPS, EPS, 2.0 * EPS])
def test_a_drafter_that_becomes_good_is_drafted_from_again(asked_seconds: float) -> None:
    """Refusals alone, a fiftieth of a pass each, would otherwise take all that may be lost, for good."""
    world, journal = World(), list[Entry]()
    talker = Talker(world, turns=200, asked_seconds=asked_seconds)
    policy = MeasuredPolicy(CostTable((0,), tuple(range(1, 17)), (tuple(CURVE[1:17]),)), journal=journal.append)

    loop = Loop(world, policy, PathVerifier(), world)
    state = SequenceState.start(0, [0], Counting(), 1000, frozenset())
    talker.begin(0, np.zeros(1, np.int32))
    times: dict[int, float] = {}
    while state.finish is None:
        loop.run([Drafting.of(state, (talker,))])
        times[len(state.tokens)] = world.now
    policy.end(0)
    assert replay(journal).kept
    rounds = policy.explain(0).rounds
    assert sum(rounds.values()) == len(times)
    assert (rounds.get(Reason.LEDGER, 0) > 0) is (asked_seconds > 0.5 * EPS), "rounds in which nobody was asked"
    assert state.tokens == list(range(len(state.tokens)))
    bad = max(when for length, when in times.items() if length <= 200)
    assert bad <= 200 * (1 + EPS) + 3.5
    late = [(length, when) for length, when in times.items() if length > 700]
    pace = (late[-1][1] - late[0][1]) / (late[-1][0] - late[0][0])
    assert pace <= 0.75, "a chain of seven that comes true takes 4.15 plain passes for eight tokens"
