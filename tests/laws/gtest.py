"""A goodness-of-fit test that needs nothing but numpy."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt


def deviates(counts: npt.NDArray[np.int64], p: npt.NDArray[np.float64]) -> float:
    """How many standard deviations the counts are from draws of the law p (G-test; Wilson and Hilferty's cube root).

    A token that p rules out but that was drawn makes it infinite.
    """
    expected = p * counts.sum()
    seen = counts > 0
    if (expected[seen] == 0.0).any():
        return math.inf
    g = 2.0 * float((counts[seen] * np.log(counts[seen] / expected[seen])).sum())
    freedom = int(np.count_nonzero(p)) - 1
    if freedom == 0:
        return 0.0
    spread = 2.0 / (9.0 * freedom)
    return (math.copysign(abs(g / freedom) ** (1.0 / 3.0), g) - (1.0 - spread)) / math.sqrt(spread)
