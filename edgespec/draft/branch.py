"""A guessed continuation of the text, and several of them as one tree. Does not know where the guesses come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile
from operator import mul

import numpy as np

from edgespec.draft.rates import Rates
from edgespec.spec.merging import merge
from edgespec.spec.ports import Plan
from edgespec.spec.tree import EMPTY, DraftTree, chain


@dataclass(frozen=True, slots=True)
class Branch:
    """Tokens after the last committed one; token i, once reached, is accepted at the rate of `situations[i]`."""

    tokens: list[int]
    situations: list[int]

    def survival(self, rates: Rates, least: float = 0.0) -> list[float]:
        """P(token i lies on the accepted path): the product of the rates up to it, so it never rises. The tokens below
        `least` are left out.
        """
        every = accumulate(map(rates.values.__getitem__, self.situations), mul)
        return list(takewhile(lambda chance: chance >= least, every))

    def learn(self, rates: Rates, emitted: Sequence[int]) -> None:
        """Count every token that was reached, whether or not it was in the verified tree: `emitted` is the truth."""
        for token, situation, truth in zip(self.tokens, self.situations, emitted, strict=False):
            rates.observe(situation, token == truth)
            if token != truth:
                return


def grow(branches: Sequence[Branch], rates: Rates, plan: Plan) -> DraftTree:
    """The first `plan.max_leaves` branches share `plan.max_nodes` by survival; the first one's nodes come first. Each
    ends where survival falls below the plan's.
    """
    worth = [(one, survival) for one in branches if (survival := one.survival(rates, plan.min_survival))]
    usable = worth[: max(0, plan.max_leaves)]
    quotas = _quotas([survival for _, survival in usable], plan.max_nodes)
    chains = [chain(b.tokens[:n], s[:n]) for (b, s), n in zip(usable, quotas, strict=True) if n]
    if len(chains) < 2:
        return chains[0] if chains else EMPTY
    tree, _ = merge(chains)
    return replace(tree, sources=np.zeros(len(tree), np.uint8))


def _quotas(survivals: Sequence[Sequence[float]], max_nodes: int) -> list[int]:
    """How many nodes of each branch are among the likeliest `max_nodes`; of equals the earlier branch is served."""
    quotas = [0] * len(survivals)
    if len(survivals) == 1:
        return [min(max(0, max_nodes), len(survivals[0]))]
    # The survival of each branch's next node; 0 where it has none left.
    heads = [branch[0] for branch in survivals]
    for _ in range(min(max_nodes, sum(map(len, survivals)))):
        best = max(range(len(heads)), key=heads.__getitem__)
        quotas[best] += 1
        heads[best] = survivals[best][quotas[best]] if quotas[best] < len(survivals[best]) else 0.0
    return quotas
