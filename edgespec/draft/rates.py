"""Running acceptance rates of numbered situations ("a copy after a match of 5 tokens"), for survival estimates.

Each rate is a discounted share of successes, pulled towards its prior: (s + weight * prior) / (n + weight). Only nodes
that were reached may be counted; what lies behind the first rejection says nothing. Knows nothing of trees or tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

# One observation counts 1 % less with each that follows: about the last hundred decide, so a change of topic shows.
_MEMORY = 0.99

# A prior is worth this many observations: enough that one lucky hit does not promise 16 more, little enough to learn.
_PRIOR_WEIGHT = 4.0


class Rates:
    """`values[i]` is the current estimate of situation i, always strictly between 0 and 1."""

    __slots__ = ("_counts", "_priors", "_successes", "values")

    def __init__(self, priors: Sequence[float]) -> None:
        self._priors = tuple(priors)
        self._successes = [0.0] * len(priors)
        self._counts = [0.0] * len(priors)
        self.values = list(priors)

    def observe(self, situation: int, accepted: bool) -> None:
        successes = self._successes[situation] * _MEMORY + accepted
        count = self._counts[situation] * _MEMORY + 1.0
        self._successes[situation], self._counts[situation] = successes, count
        self.values[situation] = (successes + _PRIOR_WEIGHT * self._priors[situation]) / (count + _PRIOR_WEIGHT)
