"""How fast each way to run is: plain, draft-free, in turn with a draft model, or side by side with it.

With T(n) the seconds of a pass of n rows, S_i the survival curve of a drafter, E(k) = 1 + S_1 + ... +
S_k, d seconds per drafted token, o per call, s for handing tokens from one device to the other,

    plain        1 / T(1)
    draft-free   E(k) / T(k + 1)
    serial       E(k) / (k d + o + T(k + 1) + s)
    overlapped   E(k) / (P + s + max(0, W - P) + (1 - h) (m d + o)),        P = T(k + 1) (1 + a)

where a and b are the shares by which target and drafter slow each other down, W the work that a drafter refuses to cut,
m the tokens drafted in all haste after a miss, and h the chance that the draft for what came true was ready. In a pass
floor(P / (d (1 + b))) steps are made, times the rows of a step; `spec.outcomes` says for which outcomes that suffices,
most probable first. A pass is slowed for all of its length, as it is when the slow-down is measured.

Here is what a reader of published estimates must assume to get the same numbers: between measured widths a pass costs
what lies on the line between them (a `CostTable` has steps instead, which is dearer); chains have at most 7 tokens, so
passes at most 8 rows; branches at the whole chain's end have recovery ranks too; a branch is ready only when all its k
tokens are; after a miss m = k (OnMiss.SAME_SIZE), which is also what a runtime does that sizes drafts before it knows
whether one is ready. With OnMiss.BEST_SIZE rounds after a miss have a size of their own, and the rate is that of the
chain of hits and misses: with H and M the chances of a hit after either kind of round, a share M / (1 - H + M) of all
rounds begins with a hit.
Contract: arithmetic on numbers handed in, in seconds; knows no model and no clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from edgespec.spec.outcomes import outcomes, prepared, survival_at

# Steps that fit exactly must not be lost to rounding.
_ROUNDING = 1e-9


class Placement(str, Enum):
    """The values are stable, for programs."""

    PLAIN = "plain"
    FREE = "draft-free"
    SERIAL = "serial"
    OVERLAPPED = "overlapped"


class OnMiss(Enum):
    """What is drafted when nothing that was prepared fits: the same size as always, or the best one for that case."""

    SAME_SIZE = "same-size"
    BEST_SIZE = "best-size"


@dataclass(frozen=True, slots=True)
class Draft:
    """A drafter: seconds per step and per call, and how often it is right.

    survivals: by depth, from depth 1. ranks: P(the truth is its guess of rank 2, 3, ... | it is not the first one).
    handover_seconds: what passing tokens to another device and back costs per round. n_rows: branches one step serves.
    read_seconds: of one token of a text it has to read first.
    """

    step_seconds: float
    survivals: tuple[float, ...]
    ranks: tuple[float, ...] = ()
    call_seconds: float = 0.0
    handover_seconds: float = 0.0
    read_seconds: float = 0.0
    n_rows: int = 1


@dataclass(frozen=True, slots=True)
class Beside:
    """Two devices at once: the shares by which target and drafter are slower then, and what a drafter will not cut."""

    target_slowdown: float = 0.0
    draft_slowdown: float = 0.0
    uncut_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the placement is for: tokens to come, and those that a drafter has yet to read before it can start."""

    n_tokens: int = 128
    n_behind: int = 0


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to run. passes[n]: seconds of a pass of n rows there (index 0 is not read), inf where none is possible.

    SERIAL and OVERLAPPED need a draft that costs time, FREE one that does not, OVERLAPPED also `beside`; else
    ValueError. The same drafter may be offered several times, on other devices or with other threads for the target.
    """

    placement: Placement
    passes: tuple[float, ...]
    draft: Draft | None = None
    beside: Beside | None = None

    def __post_init__(self) -> None:
        if len(self.passes) < 2 or not 0.0 < self.passes[1] < math.inf:
            raise ValueError("the pass of one row must have a time")
        if (self.draft is None) != (self.placement is Placement.PLAIN):
            raise ValueError(f"placement {self.placement.value} with draft {self.draft}")
        if (self.beside is None) == (self.placement is Placement.OVERLAPPED):
            raise ValueError(f"placement {self.placement.value} with {self.beside}")


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one way to run gives at its best. n_drafted: tokens drafted per round, n_missed: after a miss.

    hit_rate: rounds that begin with a draft that was ready. hidden_seconds: drafting that a round is spared by it.
    """

    candidate: Candidate
    tokens_per_second: float
    n_drafted: int = 0
    n_missed: int = 0
    tokens_per_round: float = 1.0
    round_seconds: float = 0.0
    hit_rate: float = 0.0
    hidden_seconds: float = 0.0

    @property
    def placement(self) -> Placement:
        return self.candidate.placement


def estimate(
    candidate: Candidate, answer: Answer | None = None, max_nodes: int = 15, on_miss: OnMiss = OnMiss.SAME_SIZE
) -> Estimate:
    """What `candidate` gives with the best sizes of up to `max_nodes` tokens a round, reading included."""
    draft = candidate.draft
    if draft is None:
        return Estimate(candidate, 1.0 / candidate.passes[1], round_seconds=candidate.passes[1])
    sizes = [n for n in range(1, max_nodes + 1) if n + 1 < len(candidate.passes) and candidate.passes[n + 1] < math.inf]
    if candidate.beside is None:
        found = [_in_turn(candidate, draft, n) for n in sizes]
    else:
        found = [
            _overlapped(candidate, draft, candidate.beside, n, missed)
            for n in sizes
            for missed in ([n] if on_miss is OnMiss.SAME_SIZE else [0, *sizes])
        ]
    if not found:
        return Estimate(candidate, 0.0)
    return _with_reading(max(found, key=lambda one: one.tokens_per_second), draft, answer or Answer())


def _tokens(draft: Draft, n: int) -> float:
    return 1.0 + sum(survival_at(draft.survivals, depth) for depth in range(1, n + 1))


def _drafting(draft: Draft, n: int) -> float:
    return n * draft.step_seconds + draft.call_seconds if n else 0.0


def _in_turn(candidate: Candidate, draft: Draft, n: int) -> Estimate:
    seconds = candidate.passes[n + 1] + _drafting(draft, n) + draft.handover_seconds
    tokens = _tokens(draft, n)
    return Estimate(candidate, tokens / seconds, n, n, tokens, seconds)


def _overlapped(candidate: Candidate, draft: Draft, beside: Beside, n: int, n_missed: int) -> Estimate:
    """Rounds of `n` tokens after a hit and of `n_missed` after a miss; the next `n` are prepared during both."""
    hit_pass = candidate.passes[n + 1] * (1.0 + beside.target_slowdown)
    miss_pass = candidate.passes[n_missed + 1] * (1.0 + beside.target_slowdown)
    after_hit = hit_chance(draft, beside, hit_pass, n, n)
    after_miss = after_hit if n_missed == n else hit_chance(draft, beside, miss_pass, n_missed, n)
    hits = after_miss / (1.0 - after_hit + after_miss) if after_miss > 0.0 else 0.0
    drafting = _drafting(draft, n_missed)
    waits = [taken + max(0.0, beside.uncut_seconds - taken) for taken in (hit_pass, miss_pass)]
    seconds = draft.handover_seconds + hits * waits[0] + (1.0 - hits) * (waits[1] + drafting)
    tokens = hits * _tokens(draft, n) + (1.0 - hits) * _tokens(draft, n_missed)
    return Estimate(candidate, tokens / seconds, n, n_missed, tokens, seconds, hits, hits * _drafting(draft, n))


def hit_chance(draft: Draft, beside: Beside, pass_seconds: float, n_verified: int, n_next: int) -> float:
    """h: the chance that a draft of `n_next` tokens is ready for what a pass over `n_verified` tokens says."""
    step = draft.step_seconds * (1.0 + beside.draft_slowdown)
    ordered = outcomes(draft.survivals, draft.ranks, n_verified, n_next)
    n_steps = draft.n_rows * math.floor(pass_seconds / step + _ROUNDING) if step > 0.0 else len(ordered) * (n_next + 1)
    return min(1.0, sum(one.probability for one in prepared(ordered, n_steps)))


def _with_reading(found: Estimate, draft: Draft, answer: Answer) -> Estimate:
    """The same, the text that is read first spread over the answer's tokens."""
    reading = answer.n_behind * draft.read_seconds
    if reading <= 0.0:
        return found
    rate = answer.n_tokens / (answer.n_tokens / found.tokens_per_second + reading)
    return Estimate(
        found.candidate,
        rate,
        found.n_drafted,
        found.n_missed,
        found.tokens_per_round,
        found.round_seconds,
        found.hit_rate,
        found.hidden_seconds,
    )
