"""Drafts from a second, smaller network: a drafter over a step model, for the law of one request.

Contract: what is proposed is a function of the committed text, the plan, the law and the network alone (of the draws
too, in mode SAMPLED), whatever the cells held before and whoever else uses them. `begin` and `observe` only keep the
text: the network reads when a proposal is asked for, and only what its cells lack. A network that fails or returns
nonsense raises EngineFailure from `propose`. Calls for a sequence that has not begun raise KeyError. Does not know
where the network runs, nor what a proposal costs.
"""

from __future__ import annotations

import numpy as np

from edgespec.draft.growth import Clock, Deadline, grow
from edgespec.draft.sparse import Draw, Float64Array, SparseLaw
from edgespec.draft.trunk import Trunk
from edgespec.spec.law import Law
from edgespec.spec.ports import Commit, IntArray, Needs, Plan, Rows, SequenceId
from edgespec.spec.tree import DraftMode, DraftTree

# Sets a drafter's own draws apart from every other use of the request's seed; the verifier's must not depend on them.
_OWN_STREAM = 0x6472616674


class ModelDrafter:
    """ports.Drafter over the network of `trunk`, which drafters of other requests may share.

    mode: how tokens are chosen, by default COUPLED, and POINT at temperature 0. stop_below: a node with less survival
    is not proposed, nor one below the plan's own least, and nothing is run to look behind one. draw: for SAMPLED, where
    its tokens come from; by default a generator of its own, seeded from the law's seed. clock: seconds, for the plan's
    deadline.
    """

    needs = Needs.TOKENS

    def __init__(
        self,
        trunk: Trunk,
        law: Law,
        clock: Clock,
        mode: DraftMode = DraftMode.COUPLED,
        stop_below: float = 0.0,
        draw: Draw | None = None,
    ) -> None:
        self.name = trunk.name
        self._trunk = trunk
        self._law = SparseLaw(law, mode, draw or seeded(law.settings.seed))
        self._clock = clock
        self._stop_below = stop_below
        self._texts: dict[SequenceId, list[int]] = {}

    def begin(self, sequence: SequenceId, prompt: IntArray) -> None:
        self._texts[sequence] = prompt.tolist()

    def behind(self, sequence: SequenceId) -> int:
        """Tokens that the network has to read before it can make its next proposal; 0 where it will make none."""
        return self._trunk.behind(self._texts[sequence])

    def propose(self, sequence: SequenceId, plan: Plan) -> DraftTree:
        return self.draft(self._texts[sequence], plan)

    def draft(self, text: list[int], plan: Plan) -> DraftTree:
        """The proposal behind any text; EMPTY behind an empty one, since a network has nothing to start from."""
        deadline = Deadline(self._clock, plan.deadline_seconds)
        stop_below = max(self._stop_below, plan.min_survival)
        return grow(self._trunk, self._law, text, plan, stop_below, deadline)

    def anticipate(self, sequence: SequenceId, tree: DraftTree) -> None:
        """Nothing: a drafter that works beside the target's pass is another one."""

    def observe(self, sequence: SequenceId, commit: Commit, rows: Rows, nodes: IntArray) -> None:
        """Keep the committed tokens. Cells of accepted nodes are found again by their tokens, at the next proposal."""
        self._texts[sequence] += commit.tokens.tolist()

    def end(self, sequence: SequenceId) -> None:
        self._texts.pop(sequence, None)


def seeded(seed: int) -> Draw:
    """Draws by a generator of their own, the same for the same seed."""
    generator = np.random.default_rng([seed, _OWN_STREAM])

    def draw(p: Float64Array) -> int:
        # The last index stands in for the sum's rounding.
        return min(int(p.cumsum().searchsorted(generator.random(), side="right")), len(p) - 1)

    return draw
