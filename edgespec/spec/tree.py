"""A draft: guessed tokens as a tree hanging from the last committed token. Knows nothing of models or text."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int32]


class DraftMode(Enum):
    """How children were chosen: POINT deterministically, COUPLED with the target's own noise, SAMPLED from a law q."""

    POINT = auto()
    COUPLED = auto()
    SAMPLED = auto()


@dataclass(frozen=True, slots=True)
class DraftTree:
    """Nodes in an order where parents come before children; parent -1 is the last committed token.

    tokens: int32[n]. parents: int32[n]. survival: float32[n], the estimated probability that a node lies on the
    accepted path, for planning and never for correctness. sources: uint8[n], which drafter guessed the node.
    """

    tokens: IntArray
    parents: IntArray
    survival: npt.NDArray[np.float32]
    sources: npt.NDArray[np.uint8]
    mode: DraftMode = DraftMode.POINT

    def __len__(self) -> int:
        return len(self.tokens)
