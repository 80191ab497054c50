"""What a verify pass over a chain may say, and how far a drafter beside it gets ahead of the answer.

An outcome is (i, rank): i tokens of the chain are accepted, and the target's next token is the drafter's own guess of
that rank at position i. With S_i the chance that the first i tokens are right (S_0 = 1), and R_r the chance that the
truth has rank r given that it has not rank 1,

    P(i, r) = (S_i - S_(i+1)) * R_r    for r >= 2,        P(n, 1) = S_(n+1)    for the whole chain of n tokens.

Preparing the next chain of m tokens takes m steps after an outcome of rank 2 or more, since the ranks at each position
are kept from drafting, and m + 1 after the whole chain, whose last token must be fed first to rank what follows it.
Contract: arithmetic; knows no tokens, no devices and no seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outcome:
    """`n_accepted` tokens are right and the drafter's guess of `rank` follows; `n_steps` prepare for it."""

    n_accepted: int
    rank: int
    probability: float
    n_steps: int


def survival_at(survivals: Seq[float], depth: int) -> float:
    """S_depth of a curve that begins at depth 1. Beyond its end it falls as at its last step."""
    if depth <= 0:
        return 1.0
    if depth <= len(survivals):
        return survivals[depth - 1]
    if not survivals:
        return 0.0
    before = survivals[-2] if len(survivals) > 1 else 1.0
    step = survivals[-1] / before if before > 0.0 else 0.0
    return float(survivals[-1] * step ** (depth - len(survivals)))


def constant(acceptance: float, n: int = 16) -> tuple[float, ...]:
    """The curve of a constant acceptance: acceptance, its square, ..."""
    return tuple(acceptance ** (1 + depth) for depth in range(n))


def outcomes(survivals: Seq[float], ranks: Seq[float], n_verified: int, n_next: int) -> list[Outcome]:
    """All outcomes of a pass over `n_verified` drafted tokens, most probable first.

    `ranks`: R_2, R_3, ...; empty for a drafter that only goes on with its own chain. `n_next`: tokens of the next one.
    """
    found = [Outcome(n_verified, 1, survival_at(survivals, n_verified + 1), n_next + 1)]
    for i in range(n_verified + 1):
        missed = survival_at(survivals, i) - survival_at(survivals, i + 1)
        found += [Outcome(i, rank, missed * share, n_next) for rank, share in enumerate(ranks, 2)]
    return sorted(found, key=lambda one: (-one.probability, one.n_accepted, one.rank))


def prepared(ordered: Seq[Outcome], n_steps: int) -> Iterator[Outcome]:
    """Those that so many steps get ready, in order; what is not finished is of no use."""
    for one in ordered:
        n_steps -= one.n_steps
        if n_steps < 0:
            return
        yield one
