"""Which tokens may come next, and what is forced to: what the law and the drafters hear from a grammar.

Contract: both are functions of the tokens before and of nothing else, as the law itself is. Knows no grammar, no text
and no model.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class AllowedTokens:
    """bits: uint8[ceil(n_vocab / 8)]; token t may come if bit t % 8 of byte t // 8 is set. Tokens past the end may not,
    and bits past the vocabulary are 0.
    """

    bits: npt.NDArray[np.uint8]

    def __contains__(self, token: int) -> bool:
        byte = token >> 3
        return byte < len(self.bits) and bool(self.bits[byte] >> (token & 7) & 1)

    def __len__(self) -> int:
        return int(np.bitwise_count(self.bits).sum())

    def flags(self, n_vocab: int) -> npt.NDArray[np.bool_]:
        """bool[n_vocab]."""
        return np.unpackbits(self.bits, count=n_vocab, bitorder="little").view(np.bool_)

    def ids(self) -> npt.NDArray[np.intp]:
        """intp[len(self)], ascending."""
        return np.flatnonzero(self.flags(8 * len(self.bits)))


def allow(tokens: Seq[int] | npt.NDArray[np.intp], n_vocab: int) -> AllowedTokens:
    """These tokens of a vocabulary, and no others. Raises IndexError for one outside it."""
    flags = np.zeros(n_vocab, np.bool_)
    flags[np.asarray(tokens, np.intp)] = True
    return AllowedTokens(np.packbits(flags, bitorder="little"))


# From prompt and output so far to what may come next.
Mask = Callable[[Seq[int]], AllowedTokens]


class Forcing(IntEnum):
    """Why a token is thought to come next, provided that those before it came.

    SOLE: nothing else is allowed. INNER: the bytes are forced, and other tokens could spell them. EDGE: so is the
    token's beginning, but free text follows, which the right token may reach into. END: the text is complete, and this
    is one of several tokens that end it.
    """

    SOLE = 0
    INNER = 1
    EDGE = 2
    END = 3


@dataclass(frozen=True, slots=True)
class ForcedTokens:
    """A continuation with a reason for each token."""

    tokens: list[int]
    reasons: list[Forcing]


# From (output so far, most tokens wanted, the end token to guess) to the forced continuation, perhaps an empty one.
Continuation = Callable[[list[int], int, int | None], ForcedTokens]
