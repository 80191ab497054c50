from __future__ import annotations

import numpy as np
import pytest

from edgespec.exporting.agreement import Agreement, RowDifference, difference, log_sum, summary
from edgespec.spec.ports import FloatArray
from edgespec.spec.step import Ranked


def ranked(row: FloatArray, k: int) -> Ranked:
    ids = np.argsort(-row, kind="stable")[:k].astype(np.int32)
    return Ranked(ids[None], row[None, ids], np.array([np.logaddexp.reduce(row)], dtype=np.float32))


ROW = np.log(np.array([0.1, 0.5, 0.05, 0.3, 0.05], dtype=np.float32))


@pytest.mark.parametrize("k", [1, 2, 5])
def test_a_row_agrees_with_itself(k: int) -> None:
    found = difference(ROW, ranked(ROW, k), 1)
    assert found.same_top
    assert found.tv == pytest.approx(0.0, abs=1e-6)
    assert found.logit_error == 0.0


def test_by_hand() -> None:
    other = np.log(np.array([0.1, 0.2, 0.05, 0.6, 0.05], dtype=np.float32))
    found = difference(ROW, ranked(other, 2), 3)  # names tokens 3 and 1
    assert not found.same_top
    assert found.tv == pytest.approx((abs(0.6 - 0.3) + abs(0.2 - 0.5) + abs(0.2 - 0.2)) / 2, abs=1e-6)
    assert found.logit_error == pytest.approx(max(np.log(0.6 / 0.3), np.log(0.5 / 0.2)), abs=1e-6)


def test_what_is_not_named_counts_as_one_token() -> None:
    other = np.log(np.array([0.3, 0.5, 0.05, 0.1, 0.05], dtype=np.float32))  # the rest of it is 0.5, as in ROW
    assert difference(ROW, ranked(other, 1), 1).tv == pytest.approx(0.0, abs=1e-6)
    assert difference(ROW, ranked(other, 5), 1).tv == pytest.approx(0.2, abs=1e-6)


def test_a_constant_changes_probabilities_nowhere_and_logits_everywhere() -> None:
    found = difference(ROW, ranked(ROW + np.float32(3), 3), 1)
    assert found.same_top
    assert found.tv == pytest.approx(0.0, abs=1e-6)
    assert found.logit_error == pytest.approx(3.0)


def test_whether_the_model_agrees_with_itself() -> None:
    assert difference(ROW, ranked(ROW[::-1].copy(), 2), 1).stable
    assert not difference(ROW, ranked(ROW, 2), 3).stable


def test_log_sums_of_large_logits() -> None:
    assert log_sum(np.array([1000.0, 1000.0, -np.inf], dtype=np.float32)) == pytest.approx(1000 + np.log(2))


def test_summary() -> None:
    rows = [RowDifference(i % 4 != 0, i > 0, i / 100, i / 10) for i in range(101)]
    found = summary(rows)
    assert found == Agreement(101, 75 / 101, 100 / 101, found.mean_tv, found.p95_tv, 10.0)
    assert (found.mean_tv, found.p95_tv) == pytest.approx((0.5, 0.95))
    with pytest.raises(ValueError, match="no positions"):
        summary([])
