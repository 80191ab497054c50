"""Times single passes of an open target, at any length of its text. Knows no settings and no search."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edgespec.spec.ports import Commit, IntArray, Target, VerifyRequest
from edgespec.spec.tree import chain

Clock = Callable[[], float]
SEQUENCE = 0
# A stride through the vocabulary that visits all of it: in a mixture of experts every row then asks for its own.
STRIDE = 7919


def filler(n: int, n_vocab: int) -> IntArray:
    """int32[n]: tokens of no meaning. What is read does not change what reading costs."""
    return (np.arange(1, n + 1, dtype=np.int64) * STRIDE % n_vocab).astype(np.int32)


class Bench:
    """One text in a target's cache, and passes at its end that leave nothing behind."""

    def __init__(self, target: Target, clock: Clock) -> None:
        self._target = target
        self._clock = clock
        can = target.capabilities
        self._text = filler(can.n_ctx, can.n_vocab)
        # Without rollback a pass cannot be taken back, so there only the plain one is timed.
        self.widest = can.max_rows if can.can_rollback else 1

    @property
    def length(self) -> int:
        return self._target.length(SEQUENCE)

    def read(self, length: int, chunk: int) -> float:
        """One chunk towards a text of `length` tokens; a longer text is cut first. Seconds, 0 if nothing was missing.

        On a GPU this returns before the device is done, and the next pass waits for it.
        """
        if self.length > length:
            self._cut_to(length)
        start = self.length
        end = min(length, start + min(chunk, self._target.capabilities.max_chunk))
        if end == start:
            return 0.0
        began = self._clock()
        self._target.extend(SEQUENCE, self._text[start:end])
        return self._clock() - began

    def pass_seconds(self, width: int) -> float:
        """One pass of `width` rows after the text, its logits ready to be read."""
        tokens = self._text[:width]
        tree = chain(tokens[1:], np.ones(width - 1, np.float32))
        length = self.length
        began = self._clock()
        rows = self._target.verify([VerifyRequest(SEQUENCE, tokens[:1], tree, False)], width)[0]
        rows.logits(width - 1)
        seconds = self._clock() - began
        self._target.commit(SEQUENCE, Commit(np.zeros(0, np.int32), tokens[:1]))
        if self.widest > 1:
            self._target.rewind(SEQUENCE, length)
        return seconds

    def _cut_to(self, length: int) -> None:
        if self._target.rewind(SEQUENCE, length) != length:  # a sliding window kept less: all is read again
            self._target.rewind(SEQUENCE, 0)
