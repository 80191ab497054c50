"""Jacobi decoding: lookahead with one level and no pool.

Contract: `n` guessed tokens follow the last committed one, and every pass replaces each of them by what the target
says after the guess before it. A guess that all before it are right is right after the next pass, whatever it was, so
n tokens take at most n passes; a pass that changes nothing has reached the greedy text (Santilli et al., 2023). The
loop of passes is the round loop itself: what is accepted leaves in front, new guesses come at the end.
"""

from __future__ import annotations

from edgespec.draft.lookahead import LookaheadDrafter


class JacobiDrafter(LookaheadDrafter):
    """`n`: tokens guessed at a time, all of them pinned: each one's row is the next guess for its follower."""

    name = "jacobi"

    def __init__(self, n: int = 8) -> None:
        super().__init__(window=n, level=2, pool_size=0)
