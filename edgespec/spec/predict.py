"""What drafting can give: the arithmetic of tokens per pass and speed, from numbers alone.

Notation: a = P(a drafted token is right | those before it are), N = drafted tokens of a chain, T_v(n) = seconds of a
pass of n rows, T1 = T_v(1), T_d = seconds of drafting. Plain decoding takes T1 per token, so

    speed-up = (1 + sum of survivals) / ((T_d + T_v(1 + N) + overhead) / T1)

with sum of survivals = a + a^2 + ... + a^N for a constant a. Two textbook forms stand beside it: Leviathan, Kalman and
Matias, "Fast Inference from Transformers via Speculative Decoding" (2023), theorem 3.8, takes a pass of any width to
cost T1; the other takes it to grow by a share alpha of T1 per row, and counts only accepted tokens.
Contract: pure functions; knows no drafter and no policy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from edgespec.spec.cost import CostTable

# Attention makes passes dearer with the text, plain ones too, so that their ratios change little.
USUAL_CONTEXT = 256

# Steps of the curve, if it has any, are longer than so many rows.
_STEP = 4


def tokens_per_pass(acceptance: float, n_drafted: int) -> float:
    """1 + a + ... + a^N: expected tokens of a pass over a chain, the target's own one included."""
    return 1.0 + sum(acceptance**depth for depth in range(1, n_drafted + 1))


def goodput(survivals: Seq[float], seconds: float, n_sequences: int = 1) -> float:
    """Expected tokens per second of a round over nodes with these survivals that takes `seconds` in all."""
    return (n_sequences + sum(survivals)) / seconds


def best_size(
    survivals: Seq[float],
    seconds: Seq[float],
    n_sequences: int = 1,
    spent_seconds: float = 0.0,
    longest_seconds: float = math.inf,
    margin: float = 1.0,
) -> int:
    """How many of the nodes, likeliest first, to verify for the highest goodput; 0 is plain decoding.

    survivals: descending. seconds[n]: the pass over n nodes, inf where that is not possible. `spent_seconds` of
    drafting are gone in any case. Passes over `longest_seconds` are left out; drafting must beat plain by the factor
    `margin`.
    Every n is tried, since real curves have steps and goodput several peaks.
    """
    best, tokens = 0, float(n_sequences)
    best_rate = margin * tokens / (spent_seconds + seconds[0])
    for n, survival in enumerate(survivals, 1):
        tokens += survival
        rate = tokens / (spent_seconds + seconds[n])
        if rate > best_rate and seconds[n] <= longest_seconds:
            best, best_rate = n, rate
    return best


def may_pay(seconds: Seq[float], n_sequences: int, survival: float = 1.0, margin: float = 1.0) -> bool:
    """Whether guesses that come true with this chance each would beat plain decoding by `margin`, were there any number
    of them.

    seconds[n]: the pass over n nodes beside one row of each sequence, inf where that is not possible.
    """
    best = max((n_sequences + n * survival) / taken for n, taken in enumerate(seconds))
    return best > margin * n_sequences / seconds[0]


def least_useful(survivals: Seq[float], seconds: Seq[float], step_seconds: float, n_sequences: int = 1) -> float:
    """The survival below which no further node is worth its row and its step, whatever follows it.

    With lambda the best goodput to be had of chains with these survivals, seconds[n] the round over n nodes without
    their steps, a node after k others may be followed by any up to m in all; none of them survives more often than it
    does. So going on is worth at most (m - k) S tokens and costs seconds[m] - seconds[k] + (m - k) d, which does not
    raise a goodput of lambda if S < lambda * ((seconds[m] - seconds[k]) / (m - k) + d) for every m (Dinkelbach). The
    least of these over all k < m is taken: it never stops a draft that could pay.
    """
    n_nodes = min(len(survivals), len(seconds) - 1)
    rates = [n_sequences / seconds[0]]
    tokens = float(n_sequences)
    for n in range(1, n_nodes + 1):
        tokens += survivals[n - 1]
        rates.append(tokens / (seconds[n] + n * step_seconds))
    possible = [n for n in range(n_nodes + 1) if seconds[n] < math.inf]
    growth = [(seconds[m] - seconds[k]) / (m - k) for k in possible for m in possible if k < m]
    return min(1.0, max(rates) * (max(0.0, min(growth)) + step_seconds)) if growth else 0.0


def break_even(cost_ratio: float, n_drafted: int) -> float:
    """The acceptance at which a chain of N tokens just pays, when its round takes `cost_ratio` plain passes.

    inf if not even a perfect drafter would pay. Found by bisection: the expected tokens rise with the acceptance.
    """
    if cost_ratio <= 1.0:
        return 0.0
    if n_drafted + 1 < cost_ratio:
        return math.inf
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if tokens_per_pass(middle, n_drafted) < cost_ratio else (low, middle)
    return high


def leviathan_speedup(acceptance: float, n_drafted: int, cost_coefficient: float) -> float:
    """Theorem 3.8: (1 - a^(N+1)) / ((1 - a) (N c + 1)), c = seconds of one drafted token over T1."""
    return tokens_per_pass(acceptance, n_drafted) / (n_drafted * cost_coefficient + 1.0)


def linear_speedup(acceptance: float, n_drafted: int, draft_ratio: float, alpha: float) -> float:
    """E[accepted] / (T_draft / T_decode + 1 + alpha N).

    Its numerator lacks the token that every pass gives for nothing, so it is 0 without a draft instead of 1.
    """
    return (tokens_per_pass(acceptance, n_drafted) - 1.0) / (draft_ratio + 1.0 + alpha * n_drafted)


def slope(table: CostTable, context: int) -> float:
    """alpha: the growth of a pass per further row in units of T1, the least-squares line through (1 row, T1)."""
    seconds = table.at(context)
    rows = [width - 1 for width in table.widths]
    growth = [s / seconds[0] - 1.0 for s in seconds]
    return sum(r * g for r, g in zip(rows, growth, strict=True)) / max(1, sum(r * r for r in rows))


@dataclass(frozen=True, slots=True)
class BreakEven:
    """What a pass of `rows` rows costs in plain passes, and the acceptance from which a chain that fills it pays."""

    rows: int
    cost_ratio: float
    acceptance: float


def break_even_table(widths: Seq[int], seconds: Seq[float], extra_seconds: float = 0.0) -> tuple[BreakEven, ...]:
    """One line for each width but the first, which must be the plain pass. `extra_seconds`: drafting, per round."""
    lines: list[BreakEven] = []
    for width, taken in zip(widths[1:], seconds[1:], strict=True):
        ratio = (taken + extra_seconds) / seconds[0]
        lines.append(BreakEven(width, ratio, break_even(ratio, width - 1)))
    return tuple(lines)


@dataclass(frozen=True, slots=True)
class Forecast:
    """A what-if for a chain of constant acceptance. Speed-ups are over plain decoding at the same context."""

    tokens_per_pass: float
    speedup: float
    break_even_acceptance: float
    textbook_speedup: float
    leviathan_speedup: float


def forecast(
    table: CostTable,
    context: int,
    acceptance: float,
    n_drafted: int,
    draft_seconds: float = 0.0,
    overhead_seconds: float = 0.0,
) -> Forecast:
    """Predict chains of `n_drafted` tokens, drafted in `draft_seconds` together.

    Raises ValueError unless 0 <= acceptance <= 1 and 1 + n_drafted rows lie within the table.
    """
    if not 0.0 <= acceptance <= 1.0:
        raise ValueError(f"an acceptance of {acceptance} is no probability")
    if not 1 <= n_drafted < table.widest:
        raise ValueError(f"{n_drafted} drafted tokens need {n_drafted + 1} rows; 2 to {table.widest} were measured")
    steps = table.steps(context)
    plain = steps[1] + overhead_seconds
    ratio = (draft_seconds + steps[1 + n_drafted] + overhead_seconds) / plain
    tokens = tokens_per_pass(acceptance, n_drafted)
    return Forecast(
        tokens_per_pass=tokens,
        speedup=tokens / ratio,
        break_even_acceptance=break_even(ratio, n_drafted),
        textbook_speedup=linear_speedup(acceptance, n_drafted, draft_seconds / plain, slope(table, context)),
        leviathan_speedup=leviathan_speedup(acceptance, n_drafted, draft_seconds / n_drafted / plain),
    )


def serial_seconds(n_drafted: int, seconds_per_draft: float, verify_seconds: float, handover: float = 0.0) -> float:
    """One round when drafting and verifying take turns; `handover` is what passing tokens across costs."""
    return n_drafted * seconds_per_draft + verify_seconds + handover


def least_claim(table: CostTable, n_sequences: int = 1) -> float:
    """The claim below which no free guess is worth looking at. Chains whose first tokens survive with S at most give no
    more than n S tokens for n nodes in all, beside the N that a plain pass of N sequences gives, so they cannot pay if
    S < N (T_v(N + n) / T_v(N) - 1) / n for every n; half of that is taken, since a claim may be too modest. inf where
    no pass is wider, 0 while that is not known.
    """
    wider = [width for width in table.widths if width > n_sequences]
    if not wider:
        return 0.0 if table.is_partial else math.inf
    steps = table.steps(USUAL_CONTEXT)
    plain = steps[table.next_below(n_sequences)]  # as in `Pricing`
    return 0.5 * max(0.0, min(n_sequences * (steps[width] / plain - 1.0) / (width - n_sequences) for width in wider))


def least_node(table: CostTable) -> float:
    """The survival below which no node of a draft is worth its row: half of what a row costs where rows are cheapest,
    in plain passes; 0 where not all widths are measured. Costs are taken over several rows: inside a step of the curve
    a row costs nothing, and a guess of any survival is worth it, but a single hiccup in the table is no step.
    """
    if table.is_partial:
        return 0.0
    steps, widths = table.steps(USUAL_CONTEXT), table.widths
    pairs = ((low, next((high for high in widths if high >= low + _STEP), 0)) for low in widths)
    costs = [(steps[high] - steps[low]) / (high - low) / steps[1] for low, high in pairs if high]
    return 0.5 * max(0.0, min(costs, default=0.0))
