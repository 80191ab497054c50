"""Whether pinned nodes go into the pass: as long as what passes with them give is worth the price of their rows.

Only where one sequence has the pass to itself: rows that only pay where they are next to free are not free in a batch.
Contract: arithmetic on one round's offers; what is known of earlier rounds comes from `Upkeep`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace

from edgespec.spec.acceptance import Acceptance
from edgespec.spec.policy import Offer
from edgespec.spec.predict import best_size
from edgespec.spec.prices import Pricing
from edgespec.spec.upkeep import Upkeep
from edgespec.spec.weighed import Weighed, weigh


@dataclass(frozen=True, slots=True)
class Kept:
    """weighed: the round with its pinned nodes. n_nodes: all that go into the pass. tokens, seconds: expected of it."""

    weighed: Weighed
    n_nodes: int
    tokens: float
    seconds: float


def any_pinned(offers: Seq[Offer]) -> bool:
    return any(len(one.tree.pinned) for offer in offers for one in offer.proposed)


def keep_pinned(
    offers: Seq[Offer],
    acceptance: Acceptance,
    upkeep: Upkeep,
    pricing: Pricing,
    spent_seconds: float,
    longest_seconds: float,
    margin: float,
) -> Kept | None:
    """The pass with the pinned nodes, and as many others as pay beside them; None if that is not the best thing to do.

    It must promise more tokens per second than the best pass with what the other drafters offer, and by itself more
    than plain decoding by the factor `margin`. What the pinning drafters guess beside their pins is not held against
    them: without pins they would soon have nothing to guess. Those whose pins do not pay against plain decoding are
    left alone for a while. Beside a tree whose nodes were drawn from a law there are no pins: it cannot be merged.
    """
    proposed = offers[0].proposed
    if len(offers) > 1 or any(one.tree.mode.is_drawn for one in proposed):
        return None
    names = [one.drafter for one in proposed if len(one.tree.pinned)]
    weighed = weigh(offers[0], acceptance, keeps_pinned=True)
    seconds = _carried(pricing.seconds)[weighed.n_pinned :]
    if not weighed.n_pinned or not seconds:
        upkeep.refuse(names)
        return None
    survivals = weighed.likely[: len(seconds) - 1]
    n_likely = best_size(survivals, seconds, spent_seconds=spent_seconds)
    whole = spent_seconds + seconds[n_likely]
    others = _best_of_others(offers[0], acceptance, pricing, spent_seconds)
    # A round whose guesses are better than usual is judged by them: they are what earlier passes were paid for.
    own = max(upkeep.expected(names), 1.0 + sum(survivals[:n_likely]) - (others.tokens - 1.0))
    if own * pricing.t1_seconds <= margin * (spent_seconds + seconds[0] if others.tokens > 1.0 else whole):
        upkeep.refuse(names)
        return None
    tokens = own + (others.tokens - 1.0)
    if tokens * others.seconds <= others.tokens * whole or seconds[n_likely] > longest_seconds:
        return None
    upkeep.keep(names, others.tokens - 1.0)
    return Kept(weighed, weighed.n_pinned + n_likely, tokens, seconds[n_likely])


@dataclass(frozen=True, slots=True)
class _Pass:
    """What a pass is expected to give, and all that it takes."""

    tokens: float
    seconds: float


def _best_of_others(offer: Offer, acceptance: Acceptance, pricing: Pricing, spent_seconds: float) -> _Pass:
    """The best pass with what is offered by drafters that pin nothing; plain decoding if they offer nothing."""
    others = tuple(one for one in offer.proposed if not len(one.tree.pinned))
    if not any(len(one.tree) for one in others):
        return _Pass(1.0, pricing.plain_seconds)
    survivals = weigh(replace(offer, proposed=others), acceptance).likely[: len(pricing.seconds) - 1]
    n_nodes = best_size(survivals, pricing.seconds, spent_seconds=spent_seconds)
    return _Pass(1.0 + sum(survivals[:n_nodes]), spent_seconds + pricing.seconds[n_nodes])


def _carried(seconds: Seq[float]) -> list[float]:
    """A number of nodes without a price costs what the next one with a price does: a window has the size it has."""
    found = list(seconds)
    for n in range(len(found) - 2, -1, -1):
        if found[n] == math.inf:
            found[n] = found[n + 1]
    return found
