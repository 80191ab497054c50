"""Texts that only know how well they can be guessed, for a policy on a virtual clock.

How many of a draft's tokens are right is drawn from a process: constant or switching acceptance, or text that copies
itself in bursts. Contract: deterministic for a seed and an order of calls; knows no tokens and no time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from random import Random
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Guess:
    """A draft: how many of its first tokens are right, and what the drafter claims for each step."""

    n_right: int
    claims: tuple[float, ...]


class Process(Protocol):
    def guess(self, position: int, n_tokens: int) -> Guess | None:
        """The draft of up to `n_tokens` after `position` tokens of output; None if the drafter has nothing to say."""


class Steady:
    """Each token is right with a fixed probability, which moves on to the next of `acceptances` every `period` tokens.

    `claim` is what the drafter says instead, whatever the truth.
    """

    def __init__(self, acceptances: Seq[float], period: int = 300, claim: float = 0.6, seed: int = 0) -> None:
        self._acceptances = tuple(acceptances)
        self._period = period
        self._claim = claim
        self._random = Random(seed)

    def acceptance(self, position: int) -> float:
        return self._acceptances[position // self._period % len(self._acceptances)]

    def guess(self, position: int, n_tokens: int) -> Guess:
        n_right = 0
        while n_right < n_tokens and self._random.random() < self.acceptance(position + n_right):
            n_right += 1
        return Guess(n_right, (self._claim,) * n_tokens)


class Copies:
    """Text that copies earlier text in bursts, and a look-up that claims by the length of its match.

    A burst has `burst` tokens on average and follows `gap` tokens of other text, where one position in five has a match
    by chance, mostly wrong. The claim rises with the match: what such a match is worth here, off by a factor `lie`.
    """

    _CLAIMS = ((3, 0.45), (4, 0.6), (6, 0.75), (10, 0.88), (16, 0.95))

    def __init__(self, n_tokens: int, burst: float = 24.0, gap: float = 60.0, lie: float = 1.0, seed: int = 0) -> None:
        self._random = Random(seed)
        self._lie = lie
        self._ends: list[tuple[int, int]] = []
        while len(self._ends) < n_tokens + 64:
            start = len(self._ends)
            self._ends += [(0, 0)] * math.ceil(self._random.expovariate(1.0 / gap))
            start = len(self._ends)
            length = math.ceil(self._random.expovariate(1.0 / burst))
            self._ends += [(start, start + length)] * length

    def guess(self, position: int, n_tokens: int) -> Guess | None:
        start, end = self._ends[position]
        match = position - start
        if end and match >= 3:
            return Guess(end - position, self._claims(match, n_tokens))
        if self._random.random() < 0.2:
            return Guess(int(self._random.random() < 0.15), self._claims(3, n_tokens))
        return None

    def _claims(self, match: int, n: int) -> tuple[float, ...]:
        return tuple(
            min(0.99, self._lie * max(claim for length, claim in self._CLAIMS if length <= match + i)) for i in range(n)
        )
