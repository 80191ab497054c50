"""Where a draft model is predicted to gain most: nowhere, in turn with the target, or beside it. Arithmetic on what was
measured of both.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import replace

from edgespec.engine.pair.facts import PairFacts
from edgespec.engine.pair.standings import BESIDE, IN_TURN, Standings
from edgespec.spec.cost import CostTable
from edgespec.spec.latency import Beside, Candidate, Draft, Estimate, Placement
from edgespec.spec.placement import Choice, choose
from edgespec.tune.agreement import RANKS
from edgespec.tune.pair import PairTimes, StepTimes
from edgespec.tune.tuning import Tuned

# Longer chains are never predicted to pay.
MAX_DRAFT = 15
# Drafts are priced for texts of this length.
USUAL_CONTEXT = 256


def standings(name: str, choice: Choice | None) -> Standings | None:
    """None where drafting beside the target is not possible, or no way was predicted to pay."""
    if choice is None or choice.best.placement not in (IN_TURN, BESIDE):
        return None
    gains = speedups(choice)
    if not (gains.get(IN_TURN) and gains.get(BESIDE)):
        return None
    return Standings(name, {way: 1.0 / gains[way] for way in (IN_TURN, BESIDE)}, choice.best.placement)


def speedups(choice: Choice) -> dict[Placement, float]:
    """How many times as fast as plain decoding each of the ways that were weighed is predicted to be."""
    every: tuple[Estimate, ...] = (choice.best, *(loser.estimate for loser in choice.losers))
    rates = {one.placement: one.tokens_per_second for one in every}
    return {way: rate / rates[Placement.PLAIN] for way, rate in rates.items()}


def gain(choice: Choice | None) -> float:
    """How many times as fast as plain decoding the best way is predicted to be; 0 where nothing was weighed."""
    return speedups(choice)[choice.best.placement] if choice else 0.0


def weighed(facts: PairFacts, tuned: Tuned | None) -> Choice | None:
    """What the measured times and acceptance predict. None where the target was not measured: then there is nothing to
    weigh.
    """
    if tuned is None:
        return None
    fewer = left_for(tuned.table, tuned.alone, tuned.settings.n_threads, facts.times.target_threads)
    return weigh(tuned.table, fewer, facts.times, facts.believed, facts.ranks)


def weigh(
    table: CostTable,
    fewer: CostTable,
    times: PairTimes,
    survivals: Seq[float],
    ranks: Seq[float] = RANKS,
    margin: float = 1.0,
) -> Choice:
    """Plain decoding, drafting in turn, and drafting beside the target with fewer threads for it: what is fastest.

    table: passes with all threads; fewer: with those left beside the draft. survivals: by depth, of the draft's tokens.
    ranks: how often the target's token is its second, third, ... guess where it is not its first.
    """
    plain = tuple(table.steps(USUAL_CONTEXT))
    beside = Beside(times.kappa_target, times.kappa_draft)
    return choose(
        [
            Candidate(Placement.PLAIN, plain),
            Candidate(Placement.SERIAL, plain, _draft(times.in_turn, survivals, ranks)),
            Candidate(
                Placement.OVERLAPPED, tuple(fewer.steps(USUAL_CONTEXT)), _draft(times.beside, survivals, ranks), beside
            ),
        ],
        max_nodes=MAX_DRAFT,
        margin=margin,
    )


def _draft(times: StepTimes, survivals: Seq[float], ranks: Seq[float]) -> Draft:
    step = times.step(USUAL_CONTEXT)
    return Draft(step, tuple(survivals), tuple(ranks), times.call_seconds, read_seconds=times.read_seconds)


def left_for(table: CostTable, alone: CostTable, n_threads: int, n_left: int) -> CostTable:
    """What passes take with `n_left` of `n_threads` threads: measured for one and for all, between them as the inverse
    of the threads.
    """
    if n_left >= n_threads:
        return table
    if n_left == 1:
        return alone
    share = (1.0 / n_left - 1.0 / n_threads) / (1.0 - 1.0 / n_threads)
    rows = zip(table.seconds, alone.seconds, strict=True)
    seconds = tuple(tuple(all_ + share * (one - all_) for all_, one in zip(*row, strict=True)) for row in rows)
    return replace(table, seconds=seconds)
