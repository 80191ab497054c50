from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.errors import BadInput
from edgespec.stepmodel.select import Chosen, Layers, Worth, best_length, frequent_ids, select_layers

# What each block adds to acceptance; all cost the same.
SHARES = (0.3, 0.02, 0.2, 0.0, 0.25, 0.01)


def score(layers: Layers) -> Worth:
    return Worth(0.1 + sum(SHARES[layer] for layer in layers), 0.02 + 0.1 * len(layers))


def goodput(layers: Layers) -> float:
    return best_length(score(layers), 8)[1]


def test_useless_layers_go_first() -> None:
    told: list[Chosen] = []
    chosen = select_layers(len(SHARES), score, progress=told.append)
    assert [len(one.layers) for one in told] == list(range(6, 6 - len(told), -1))
    assert [set(a.layers) - set(b.layers) for a, b in pairwise(told)][:3] == [{3}, {5}, {1}]
    assert told[-1] == chosen


def test_where_layers_are_independent_greedy_finds_the_best() -> None:
    every = [kept for n in range(1, 7) for kept in combinations(range(6), n)]
    chosen = select_layers(len(SHARES), score)
    assert chosen.goodput == pytest.approx(max(map(goodput, every)))
    assert chosen.goodput == pytest.approx(goodput(chosen.layers))


def test_all_layers_stay_where_each_is_needed() -> None:
    chosen = select_layers(4, lambda layers: Worth(0.9 if len(layers) == 4 else 0.0, 0.1))
    assert chosen.layers == (0, 1, 2, 3)
    assert chosen.n_drafted > 0


def test_equals_go_from_the_front_and_one_layer_stays() -> None:
    assert select_layers(3, lambda layers: Worth(0.8, 0.1 * len(layers))).layers == (2,)


def test_a_draft_that_never_pays_is_not_used() -> None:
    chosen = select_layers(2, lambda _layers: Worth(0.5, 2.0))
    assert (chosen.n_drafted, chosen.goodput) == (0, 1.0)


@given(st.floats(0, 1), st.floats(0, 2), st.integers(0, 12))
def test_best_length_is_the_best_of_all(acceptance: float, cost: float, most: int) -> None:
    """Expected tokens summed outcome by outcome: j kept with probability a^j (1 - a), k with a^k."""

    def plain(k: int) -> float:
        ends = [(j + 1) * acceptance**j * (1 - acceptance) for j in range(k)]
        return (sum(ends) + (k + 1) * acceptance**k) / (1 + k * cost)

    length, found = best_length(Worth(acceptance, cost), most)
    assert found == pytest.approx(plain(length))
    assert found == pytest.approx(max(plain(k) for k in range(most + 1)))


def test_frequent_ids_keep_what_must_stay() -> None:
    counts = np.array([5, 0, 9, 9, 1, 0, 7])
    assert frequent_ids(counts, 3).tolist() == [2, 3, 6]
    assert frequent_ids(counts, 3, always=(1, 5)).tolist() == [1, 2, 5]
    assert frequent_ids(counts, 1).tolist() == [2]
    assert frequent_ids(counts, 7, always=(6, 6)).tolist() == list(range(7))
    assert frequent_ids(counts, 3).dtype == np.int32


@pytest.mark.parametrize(("n", "always"), [(0, ()), (8, ()), (2, (0, 1, 2))])
def test_sizes_that_cannot_be(n: int, always: tuple[int, ...]) -> None:
    with pytest.raises(BadInput, match=f"a vocabulary of {n} tokens: the model has 7 tokens"):
        frequent_ids(np.zeros(7, dtype=np.int64), n, always)
