"""Where drafting should run, and why not elsewhere.

Contract: compares what `spec.latency` says of the candidates handed in, which the caller knows to be possible (memory,
devices, vocabularies). Rates are tokens per second of one sequence.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from enum import Enum

from edgespec.spec.latency import Answer, Beside, Candidate, Draft, Estimate, OnMiss, Placement, estimate


class Lost(str, Enum):
    """Why a placement was not taken. The values are stable, for programs."""

    SLOWER_THAN_PLAIN = "slower-than-plain"
    SLOWER = "slower"
    NEVER_READY = "never-ready"
    SLOWS_MORE_THAN_IT_HIDES = "slows-more-than-it-hides"
    MARGIN = "within-margin"


@dataclass(frozen=True, slots=True)
class Loser:
    """A way to run that was not taken, why, and the same in a sentence with its numbers."""

    estimate: Estimate
    code: Lost
    reason: str


@dataclass(frozen=True, slots=True)
class Choice:
    best: Estimate
    losers: tuple[Loser, ...]


def candidates(
    passes: Seq[float], free: Draft | None = None, draft: Draft | None = None, beside: Beside | None = None
) -> list[Candidate]:
    """The ways to run that these make possible, with the same passes for all."""
    row = tuple(passes)
    found = [Candidate(Placement.PLAIN, row)]
    if free is not None:
        found.append(Candidate(Placement.FREE, row, free))
    if draft is not None:
        found.append(Candidate(Placement.SERIAL, row, draft))
    if draft is not None and beside is not None:
        found.append(Candidate(Placement.OVERLAPPED, row, draft, beside))
    return found


def choose(
    offered: Seq[Candidate],
    answer: Answer | None = None,
    max_nodes: int = 15,
    margin: float = 1.0,
    on_miss: OnMiss = OnMiss.SAME_SIZE,
) -> Choice:
    """The fastest of the candidates, one of which must be PLAIN, and why each other one loses.

    Anything but plain decoding must be faster than it by the factor `margin`. Of equals the earlier one is taken.
    """
    found = [estimate(one, answer, max_nodes, on_miss) for one in offered]
    plain = max((one for one in found if one.placement is Placement.PLAIN), key=lambda one: one.tokens_per_second)
    bar = margin * plain.tokens_per_second
    able = [one for one in found if one.placement is not Placement.PLAIN and one.tokens_per_second > bar]
    best = max([plain, *able], key=lambda one: one.tokens_per_second)
    losers = (_loser(one, best, plain, found) for one in found if one is not best)
    return Choice(best, tuple(losers))


# -- why not ----------------------------------------------------------------------------------------------------------


def _loser(one: Estimate, best: Estimate, plain: Estimate, found: Seq[Estimate]) -> Loser:
    code = _code(one, best, plain, found)
    speed = one.tokens_per_second / plain.tokens_per_second
    name = f"{one.placement.value} with {one.n_drafted} drafted" if one.n_drafted else one.placement.value
    said = f"{name} gives {one.tokens_per_second:.1f} tokens/s, {speed:.2f}x plain"
    if one.n_drafted == 0 and one is not plain:
        return Loser(one, code, f"{one.placement.value}: no pass of two or more rows was measured")
    if code is Lost.NEVER_READY:
        return Loser(one, code, f"{said}: {_never_ready(one)}")
    if code is Lost.SLOWS_MORE_THAN_IT_HIDES:
        return Loser(one, code, f"{said}: {_hides(one)}")
    if code is Lost.SLOWER_THAN_PLAIN:
        cost = one.round_seconds / plain.round_seconds
        return Loser(one, code, f"{said}: its rounds cost {cost:.2f} plain passes and give {one.tokens_per_round:.2f}")
    if code is Lost.MARGIN:
        return Loser(one, code, f"{said}, which is too little to be sure of")
    return Loser(one, code, f"{said}; {best.placement.value} gives {best.tokens_per_second:.1f}")


def _code(one: Estimate, best: Estimate, plain: Estimate, found: Seq[Estimate]) -> Lost:
    serial = [other.tokens_per_second for other in found if other.placement is Placement.SERIAL]
    if one.candidate.beside is not None and one.n_drafted and one.tokens_per_second < max(serial, default=0.0):
        return Lost.NEVER_READY if one.hit_rate <= 0.0 else Lost.SLOWS_MORE_THAN_IT_HIDES
    if one.tokens_per_second <= plain.tokens_per_second and one is not plain:
        return Lost.SLOWER_THAN_PLAIN
    return Lost.MARGIN if best is plain else Lost.SLOWER


def _never_ready(one: Estimate) -> str:
    draft, beside = one.candidate.draft, one.candidate.beside
    if draft is None or beside is None:
        return ""
    step = draft.step_seconds * (1.0 + beside.draft_slowdown)
    taken = one.candidate.passes[one.n_drafted + 1] * (1.0 + beside.target_slowdown)
    return f"its pass of {taken * 1e3:.1f} ms ends before a draft is ready, at {step * 1e3:.1f} ms a step"


def _hides(one: Estimate) -> str:
    beside = one.candidate.beside
    if beside is None:
        return ""
    slowed = beside.target_slowdown * one.candidate.passes[one.n_drafted + 1]
    return (
        f"with {one.hit_rate:.0%} hits it hides {one.hidden_seconds * 1e3:.1f} ms of drafting a round "
        f"and slows the pass by {slowed * 1e3:.1f} ms"
    )
