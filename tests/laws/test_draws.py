"""The draw itself: Law.choose follows Law.probabilities, by quadrature of its rule and by G-tests of the real thing."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from edgespec.spec import noise
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.verify import Prefix
from tests.laws.gtest import deviates

ROW = np.array([0.9, 0.4, 0.4, -0.3, -1.0], dtype=np.float32)
TAIL = [1, 1, 3]


@pytest.mark.parametrize("law", [[0.6, 0.3, 0.1], [0.25] * 4, [0.9, 0.05, 0.04, 0.01]])
def test_the_rule_of_the_draw_has_the_law_p(law: list[float]) -> None:
    # P(i wins) integrates, over the uniform number behind i's own noise, the chance that every other score is lower.
    nodes, weights = np.polynomial.legendre.leggauss(40)
    x = 0.5 * (nodes + 1.0)
    for i, p in enumerate(law):
        u, du = x**p, 0.5 * weights * p * x ** (p - 1.0)  # smooth near u = 1, unlike the integrand in u
        score = math.log(p) + noise.gumbel_of(u)
        lower = [np.exp(-np.exp(-(score - math.log(other)))) for v, other in enumerate(law) if v != i]
        assert float((du * np.prod(lower, axis=0)).sum()) == pytest.approx(p, abs=1e-9)


@pytest.mark.parametrize(
    "settings",
    [
        SamplingSettings(temperature=1.0),
        SamplingSettings(temperature=0.7, top_k=4, top_p=0.9),
        SamplingSettings(temperature=1.3, min_p=0.2, logit_bias=((1, 0.5),), banned=(2,)),
        SamplingSettings(temperature=1.0, frequency_penalty=0.9, repeat_penalty=1.4, seed=1),
    ],
)
def test_draws_follow_the_probabilities(settings: SamplingSettings) -> None:
    law = Law(replace(settings, penalty_last_n=len(TAIL)))
    # The history grows at its far end: the noise changes, the law does not.
    draws = np.array([law.choose(ROW, Prefix(range(n), TAIL)) for n in range(12_000)])
    sparse = law.probabilities(ROW, TAIL)
    assert len(sparse.ids) >= 3
    p = np.zeros(5)
    p[sparse.ids] = sparse.p
    assert deviates(np.bincount(draws, minlength=5), p) < 4.5
    pairs = draws[::2] * 5 + draws[1::2]
    assert deviates(np.bincount(pairs, minlength=25), np.outer(p, p).ravel()) < 4.5


def test_draws_from_a_large_vocabulary_follow_the_probabilities() -> None:
    # The head, the middle and the far tail each hold a good share, so that every branch of the search is taken.
    rng = np.random.default_rng(0)
    head, middle = rng.normal(size=8) + 2.0, rng.normal(size=200) - 2.0
    row = np.concatenate([head, middle, np.full(20_000, -6.5)]).astype(np.float32)
    law = Law(SamplingSettings(temperature=1.0, seed=11))
    p = law.probabilities(row, []).p
    assert len(p) == len(row)
    bins = np.concatenate([np.arange(8), 8 + np.arange(200) % 4, 12 + np.arange(20_000) % 4])
    shares = np.bincount(bins, weights=p).astype(np.float64)
    assert min(shares[:8].sum(), shares[8:12].sum(), shares[12:].sum()) > 0.15
    draws = np.array([law.choose(row, range(position)) for position in range(6000)])
    assert deviates(np.bincount(bins[draws], minlength=16), shares) < 4.5


def test_the_g_test_sees_a_small_bias_and_an_impossible_token() -> None:
    p = np.array([0.4, 0.3, 0.2, 0.1])
    assert abs(deviates((p * 10_000).astype(np.int64) + np.array([30, -30, 20, -20]), p)) < 4.5
    assert deviates((np.array([0.43, 0.27, 0.2, 0.1]) * 10_000).astype(np.int64), p) > 4.5
    assert math.isinf(deviates(np.array([5, 5, 1]), np.array([0.5, 0.5, 0.0])))
