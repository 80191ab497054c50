"""Ranks against sorting the whole row, and the log-sum-exp against numpy's own in doubles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.backend.llama.ranking import GROUP, Ranker, best
from edgespec.errors import EngineFailure
from edgespec.spec.ports import FloatArray


def sorted_best(row: FloatArray, k: int) -> list[int]:
    """The plain twin."""
    return sorted(range(len(row)), key=lambda i: (-row[i], i))[:k]


@given(
    st.integers(0, 10**6),
    st.sampled_from([1, 5, 63, 64, 300, 2 * GROUP, 40 * GROUP, 40 * GROUP + 17]),
    st.integers(1, 20),
    st.sampled_from([0, 2, 5]),  # few levels: ties abound, and lie on both sides of the last place
)
def test_the_best_are_those_of_a_sorted_row(seed: int, n: int, k: int, n_levels: int) -> None:
    rng = np.random.default_rng(seed)
    row = rng.normal(0, 3, n).astype(np.float32)
    if n_levels:
        row = np.float32(rng.integers(0, n_levels, n))
    row[rng.random(n) < 0.1] = -np.inf
    k = min(k, n)
    ids = best(row, k)
    assert ids.dtype == np.int32
    assert ids.tolist() == sorted_best(row, k)


def test_rows_come_back_as_arrays_of_the_socket() -> None:
    rows = [np.array(row, np.float32) for row in ([0, 3, 1, 3], [-1, -2, -np.inf, 5])]
    ranked = Ranker(4, 3).rank(rows)
    assert ranked.ids.tolist() == [[1, 3, 2], [3, 0, 1]]
    assert ranked.logits.tolist() == [[3, 3, 1], [5, -1, -2]]
    assert [one.dtype.name for one in (ranked.ids, ranked.logits, ranked.log_sums)] == ["int32", "float32", "float32"]


def test_no_more_are_ranked_than_there_are() -> None:
    ranker = Ranker(3, 16)
    assert ranker.n_ranked == 3
    assert ranker.rank([np.zeros(3, np.float32)]).ids.tolist() == [[0, 1, 2]]


@given(st.integers(0, 10**6), st.sampled_from([-2000.0, 0.0, 2000.0]))
def test_log_sums_are_those_of_doubles(seed: int, shift: float) -> None:
    """Also where a single exponential would overflow. Float32 keeps 7 digits of a sum of exponentials."""
    row = (np.random.default_rng(seed).normal(0, 4, 5000) + shift).astype(np.float32)
    exact = row.astype(np.float64)
    exact_sum = exact.max() + np.log(np.exp(exact - exact.max()).sum())
    assert Ranker(5000, 1).rank([row]).log_sums[0] == pytest.approx(exact_sum, rel=1e-6, abs=1e-5)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_number_is_a_failure_of_the_engine(bad: float) -> None:
    row = np.zeros(200, np.float32)
    row[150] = bad
    with np.errstate(invalid="ignore"), pytest.raises(EngineFailure, match="no numbers"):
        Ranker(200, 4).rank([np.zeros(200, np.float32), row])
