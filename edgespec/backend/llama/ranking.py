"""The likeliest tokens of a row of logits, and the row's log-sum-exp. Pure numpy; knows no model."""

from __future__ import annotations

from collections.abc import Sequence as Seq

import numpy as np

from edgespec.errors import EngineFailure
from edgespec.spec.ports import FloatArray, IntArray
from edgespec.spec.step import Ranked

# Groups into which a row is laid out to find a bound below its k best. At 49,152 logits any number from 16 to 128 takes
# some 20 microseconds, and np.argpartition of the whole row 440.
GROUP = 64


class Ranker:
    """Ranks rows of `n_vocab` logits, the `n_ranked` best of each; reuses one scratch row."""

    def __init__(self, n_vocab: int, n_ranked: int) -> None:
        self.n_ranked = min(n_ranked, n_vocab)
        self._scratch = np.empty(n_vocab, np.float32)

    def rank(self, rows: Seq[FloatArray]) -> Ranked:
        """Rows of float32[n_vocab], not empty. Of equals the lower id comes first. Raises EngineFailure for NaN."""
        log_sums = np.array([self._log_sum(row) for row in rows], np.float32)
        if not np.isfinite(log_sums).all():
            raise EngineFailure("cannot rank the draft's tokens", "its logits are no numbers", "see 'edgespec doctor'")
        ids = np.stack([best(row, self.n_ranked) for row in rows])
        logits = np.stack([row[own] for row, own in zip(rows, ids, strict=True)])
        return Ranked(ids, logits, log_sums)

    def _log_sum(self, row: FloatArray) -> float:
        """Shifted by the largest, so that no exponential overflows."""
        largest = row.max()
        np.subtract(row, largest, out=self._scratch)
        np.exp(self._scratch, out=self._scratch)
        return float(largest + np.log(self._scratch.sum()))


def best(row: FloatArray, k: int) -> IntArray:
    """int32[k], the ids of the k largest, largest first, of equals the lower id. The row holds no NaN."""
    candidates = np.flatnonzero(row >= _bound(row, k))
    order = np.argsort(-row[candidates], kind="stable")[:k]
    return candidates[order].astype(np.int32)


def _bound(row: FloatArray, k: int) -> float:
    """A value that at least k logits reach and few others do: k groups have a largest that reaches it."""
    n_columns = len(row) // GROUP
    if n_columns < k:
        return -np.inf
    # Column by column, because numpy takes the largest of many long rows at once, but of short ones one by one.
    tops = row[: n_columns * GROUP].reshape(GROUP, n_columns).max(axis=0)
    return float(np.partition(tops, n_columns - k)[n_columns - k])
