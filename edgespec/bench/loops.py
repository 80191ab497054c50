"""Answers that go in circles: they flatter every drafter that copies, so figures are given without them too."""

from __future__ import annotations

from collections.abc import Sequence as Seq

N_LAST = 64
LONGEST_PERIOD = 32


def is_looping(token_ids: Seq[int]) -> bool:
    """Whether the last 64 tokens repeat themselves with some period of at most 32. Shorter answers do not loop."""
    last = tuple(token_ids[-N_LAST:])
    if len(last) < N_LAST:
        return False
    return any(last[period:] == last[:-period] for period in range(1, LONGEST_PERIOD + 1))
