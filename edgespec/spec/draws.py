"""The randomness of ratio verifiers: draws that nothing else has used.

Contract: the same for the same seed and position, and apart from the noise of the path verifier and of drafters. Knows
no trees.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from edgespec.spec import noise

Dense = npt.NDArray[np.float64]

# Keeps these draws apart from the noise of the path verifier and from a drafter's own.
_STREAM = 0x726174696F


class Draws(Protocol):
    def flip(self, p: float) -> bool:
        """True with probability p."""

    def pick(self, p: Dense) -> int:
        """An index, with probability p[index]."""


class KeyedDraws:
    """Draws of one round, keyed by the request's seed and the position that the round starts at."""

    def __init__(self, seed: int, position: int) -> None:
        self._key = noise.key(seed ^ _STREAM, position)
        self._n = 0

    def _next(self) -> float:
        self._n += 1
        return float(noise.uniform(self._key, np.array([self._n]))[0])

    def flip(self, p: float) -> bool:
        return self._next() < p

    def pick(self, p: Dense) -> int:
        edges = p.cumsum()
        index = int(edges.searchsorted(self._next() * edges[-1], side="right"))
        return min(index, int(np.flatnonzero(p)[-1]))  # rounding must not lead behind the last possible one


MakeDraws = Callable[[int, int], Draws]
