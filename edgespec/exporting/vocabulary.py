"""Which tokens a trimmed head keeps: those that the model itself expects most on its own answers, and of the others
those of low ids, which byte-pair vocabularies hand out by frequency. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from edgespec.spec.ports import FloatArray, IntArray
from edgespec.stepmodel.select import frequent_ids

# Ranks are by whole numbers: what is expected less than once in so many tokens counts as never.
UNITS = 10**9


class TokenMass:
    """The probability that each token had, summed over positions. What was not said was nearly said somewhere: a few
    thousand positions tell more of a vocabulary than as many tokens would.
    """

    def __init__(self, n_vocab: int) -> None:
        self.mass: npt.NDArray[np.float64] = np.zeros(n_vocab)

    def add(self, row: FloatArray) -> None:
        """row: float32[n_vocab], logits, at temperature 1."""
        raised = np.exp(row.astype(np.float64) - float(row.max()))
        self.mass += raised / raised.sum()

    def head_ids(self, n: int, always: Iterable[int]) -> IntArray:
        """int32[n], ascending. always: special and end tokens, without which no draft could end an answer. Raises
        BadInput for a size that cannot be.
        """
        return frequent_ids((self.mass * UNITS).astype(np.int64), n, sorted(set(always)))
