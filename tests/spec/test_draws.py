from __future__ import annotations

import numpy as np

from edgespec.spec.draws import KeyedDraws
from tests.laws.gtest import deviates


def test_the_same_seed_and_position_give_the_same_verdict() -> None:
    one, again, other = KeyedDraws(5, 7), KeyedDraws(5, 7), KeyedDraws(5, 8)
    p = np.array([0.2, 0.5, 0.3])
    drawn = [one.pick(p) for _ in range(50)]
    assert drawn == [again.pick(p) for _ in range(50)]
    assert drawn != [other.pick(p) for _ in range(50)]


def test_keyed_draws_follow_their_law() -> None:
    p = np.array([0.2, 0.0, 0.5, 0.3])
    draws = KeyedDraws(1, 2)
    counts = np.bincount([draws.pick(p) for _ in range(20_000)], minlength=4)
    assert counts[1] == 0
    assert deviates(counts[[0, 2, 3]], p[[0, 2, 3]]) < 4.5
    heads = sum(draws.flip(0.3) for _ in range(20_000))
    assert deviates(np.array([20_000 - heads, heads]), np.array([0.7, 0.3])) < 4.5
