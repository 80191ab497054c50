"""What the target may say of a draft that it is verifying, most probable first, from what the drafter itself ranked.

An outcome (i, z): i tokens of the draft are accepted, then comes token z. With a_j the running rate at which the token
at depth j is accepted once those before it were, and q_i(z) the drafter's claim that z follows the first i tokens,

    P(i, z) = a_0 ... a_(i-1) (1 - a_i) q_i(z) / (1 - q_i(x_i))   for z other than the drafted x_i,
    P(n, z) = a_0 ... a_(n-1) q_n(z)                              behind the whole draft of n tokens.

Chances order the work and nothing else. Knows no network, no thread and no clock.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass

from edgespec.draft.rates import Rates
from edgespec.draft.sparse import Children

# Depths with a rate of their own; deeper tokens share the last one.
_DEPTHS = 16
# Before anything is seen: a draft worth running is right more often than not.
_PRIOR = 0.7
# Keeps q(z) / (1 - q(x)) finite where the drafter is certain of x.
_LEAST_DOUBT = 1e-6


@dataclass(frozen=True, slots=True)
class Outcome:
    """`n_accepted` tokens of the draft, then `token`."""

    n_accepted: int
    token: int
    chance: float


class DepthRates:
    """How often the token at each depth was accepted, given that those before it were."""

    def __init__(self) -> None:
        self._rates = Rates((_PRIOR,) * _DEPTHS)

    def at(self, depth: int) -> float:
        return self._rates.values[min(depth, _DEPTHS - 1)]

    def reach(self, depth: int) -> float:
        """The chance that the first `depth` tokens are all accepted."""
        chance = 1.0
        for before in range(depth):
            chance *= self.at(before)
        return chance

    def observe(self, n_accepted: int, n_drafted: int) -> None:
        """Of `n_drafted` tokens the first `n_accepted` were right; those behind the first wrong one say nothing."""
        for depth in range(min(n_accepted, _DEPTHS)):
            self._rates.observe(depth, True)
        if n_accepted < min(n_drafted, _DEPTHS):
            self._rates.observe(n_accepted, False)


def likely_outcomes(draft: Seq[int], rows: Seq[Children], rates: DepthRates) -> list[Outcome]:
    """All outcomes that `rows` name, most probable first, of equals the shorter one and then the better ranked.

    rows[i]: what follows the first i tokens of the draft; there may be fewer than len(draft) + 1, but no more.
    """
    found: list[Outcome] = []
    reach = 1.0
    for i, row in enumerate(rows):
        claims = dict(zip(row.tokens, row.claims, strict=True))
        share = reach
        if i < len(draft):
            drafted = claims.pop(draft[i], 0.0)
            share *= (1.0 - rates.at(i)) / max(1.0 - drafted, _LEAST_DOUBT)
            reach *= rates.at(i)
        found += [Outcome(i, token, share * claim) for token, claim in claims.items()]
    return sorted(found, key=lambda one: (-one.chance, one.n_accepted))
