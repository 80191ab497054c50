"""Which blocks a layer-cut self-draft keeps. Greedy and pure: what a subset is worth is asked of the caller.

Dropping one block alone rarely pays, dropping several may. So the way down is walked first, each time without the block
whose loss leaves the most acceptance per cost, and then the best point of the whole way is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgespec.stepmodel.select import Worth, best_length

Layers = tuple[int, ...]

# Drafted tokens per pass that a subset is judged for; longer chains gain nothing at the acceptances of cut models.
MAX_DRAFTED = 8
# A draft that is right so seldom pays at no cost that blocks and head can have.
HOPELESS = 0.3


@dataclass(frozen=True, slots=True)
class Cut:
    """A subset of the blocks, ascending. goodput: tokens per target pass of that length, at the best draft length."""

    layers: Layers
    worth: Worth
    n_drafted: int
    goodput: float


def choose_layers(
    n_blocks: int, score: Callable[[Layers], Worth], on_cut: Callable[[Cut], None] = lambda _: None
) -> Cut:
    """The best point of the way down from all blocks; all of them where no point pays. on_cut: told each point.

    score: acceptance and cost of a subset; asked for some n_blocks ** 2 / 2 of them.
    """
    best = here = _cut(tuple(range(n_blocks)), score)
    on_cut(here)
    while len(here.layers) > 1 and here.worth.acceptance >= HOPELESS:
        smaller = [_cut(here.layers[:i] + here.layers[i + 1 :], score) for i in range(len(here.layers))]
        here = max(smaller, key=lambda one: one.worth.acceptance / one.worth.cost)
        on_cut(here)
        if here.goodput > best.goodput:
            best = here
    return best


def _cut(layers: Layers, score: Callable[[Layers], Worth]) -> Cut:
    worth = score(layers)
    return Cut(layers, worth, *best_length(worth, MAX_DRAFTED))
