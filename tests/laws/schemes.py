"""Ratio verification written plainly, right and in the ways it is usually broken: what the harness is tried on."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from tests.laws.harness import Chance, Path, Round, TokenLawOf, Vector


def accept_chance(p: Vector, q: Vector, token: int) -> float:
    return min(1.0, float(p[token] / q[token]))


def residual(p: Vector, q: Vector) -> Vector:
    rest: Vector = np.maximum(p - q, 0.0)
    return rest / float(rest.sum())


def one_hot(token: int, n_vocab: int) -> Vector:
    law = np.zeros(n_vocab)
    law[token] = 1.0
    return law


Draft = Callable[[Chance], list[tuple[int, Vector]]]


def rejection_round(p: TokenLawOf, draft: Draft) -> Round:
    """Token-wise rejection of a chain of (token, the law q that it is said to come from)."""

    def play(chance: Chance) -> Path:
        text: Path = ()
        for token, q in draft(chance):
            if not chance.flip(accept_chance(p(text), q, token)):
                return (*text, chance.pick(residual(p(text), q)))
            text = (*text, token)
        return (*text, chance.pick(p(text)))

    return play


def sampled_draft(q: TokenLawOf, n: int) -> Draft:
    """n tokens drawn from q."""

    def draft(chance: Chance) -> list[tuple[int, Vector]]:
        text: Path = ()
        for _ in range(n):
            text = (*text, chance.pick(q(text)))
        return [(token, q(text[:i])) for i, token in enumerate(text)]

    return draft


def greedy_draft(q: TokenLawOf, n: int, claimed: Callable[[Vector, int], Vector]) -> Draft:
    """n times the likeliest token of q, said to come from `claimed(q, token)`."""

    def draft(_chance: Chance) -> list[tuple[int, Vector]]:
        text: Path = ()
        steps: list[tuple[int, Vector]] = []
        for _ in range(n):
            token = int(q(text).argmax())
            steps.append((token, claimed(q(text), token)))
            text = (*text, token)
        return steps

    return draft


def shortened(draft: Draft, threshold: float, keep_last: bool) -> Draft:
    """Stop at the first token whose own q is low: `keep_last` submits it still (causal), else it goes too (biased)."""

    def cut(chance: Chance) -> list[tuple[int, Vector]]:
        steps = draft(chance)
        low = next((i for i, (token, q) in enumerate(steps) if q[token] < threshold), len(steps))
        return steps[: low + 1] if keep_last else steps[:low]

    return cut


def same_noise_pairs(q: Vector, r: Vector) -> Vector:
    """P[i, j] that argmax(log q + g) = i and argmax(log r + g) = j for one Gumbel noise g.

    As a race of exponentials E_v: i has the least E_v / q_v and j the least E_v / r_v. Given E_i = a and E_j = t a, the
    others need E_v > a max(q_v / q_i, t r_v / r_j); integrating over a leaves 1 / (1 + t + sum of those maxima)^2 dt,
    whose pieces between kinks are 1 / (c + d t)^2.
    """
    pairs = np.zeros((len(q), len(r)))
    for i in np.flatnonzero(q).tolist():
        if r[i] > 0.0:
            pairs[i, i] = 1.0 / np.maximum(q / q[i], r / r[i]).sum()
        for j in np.flatnonzero(r).tolist():
            if i != j:
                pairs[i, j] = _other_winner(q, r, i, j)
    return pairs


def _other_winner(q: Vector, r: Vector, i: int, j: int) -> float:
    # t runs over E_j / E_i > q_j / q_i (i wins the first race) and < r_j / r_i (j wins the second).
    low, high = float(q[j] / q[i]), float(r[j] / r[i]) if r[i] > 0.0 else math.inf
    others = [v for v in range(len(q)) if v not in (i, j)]
    kinks = sorted(q[v] * r[j] / (q[i] * r[v]) for v in others if r[v] > 0.0)
    edges = [low, *(float(k) for k in kinks if low < k < high), high]
    total = 0.0
    for left, right in pairwise(edges):
        if left < right:
            inside = left + 1.0 if math.isinf(right) else 0.5 * (left + right)
            grows = [v for v in others if r[v] * inside / r[j] > q[v] / q[i]]
            c = 1.0 + float(sum(q[v] / q[i] for v in others if v not in grows))
            d = 1.0 + float(sum(r[v] / r[j] for v in grows))
            total += (1.0 / (c + d * left) - (0.0 if math.isinf(right) else 1.0 / (c + d * right))) / d
    return total


def coupled_round(p: TokenLawOf, q: TokenLawOf, fresh: bool) -> Round:
    """One token drafted with Gumbel noise, its replacement drawn with fresh noise or (biased) with the same again."""

    def play(chance: Chance) -> Path:
        law, guess = p(()), q(())
        if np.array_equal(law, guess):
            return (chance.pick(law),)
        rest = residual(law, guess)
        pairs = np.outer(guess, rest) if fresh else same_noise_pairs(guess, rest)
        drafted, replacement = divmod(chance.pick(pairs.ravel()), len(law))
        accepted = chance.flip(accept_chance(law, guess, drafted))
        return (drafted,) if accepted else (replacement,)

    return play
