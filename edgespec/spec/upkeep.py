"""What a pass with a drafter's pinned nodes gives, so that the drafter pays for their rows.

Pinned nodes are no guesses: what they are worth shows in later rounds. So the tokens of all rounds that carried them
are averaged, and the rows are bought while that average is worth their price. Where it is not the drafter is not even
asked for ever longer spells; after each, a part of what is known is forgotten, since texts and prices change.
Contract: counts rounds and tokens; knows no trees and no seconds.
"""

from __future__ import annotations

from collections.abc import Iterable

# What a round with a window gives before anything is known of it, and the rounds that this is worth. Measured over six
# prompts and six sizes of window: 1.5 to 1.9; the first rounds, which only fill the window, must not end it.
_PRIOR_TOKENS = 1.7
_PRIOR_ROUNDS = 12.0

# One round counts so much less with each that follows.
_KEPT = 0.97

# Rounds that a drafter is left alone, at first and at most: a proposal that is then not taken costs some 0.1 ms.
_SHORTEST_REST = 8
_LONGEST_REST = 256

# What stays of the record after a rest.
_REMEMBERED = 0.7


class Record:
    """One drafter's rounds with its pins."""

    __slots__ = ("_n_rounds", "_n_tokens", "_next_rest", "_resting")

    def __init__(self) -> None:
        self._n_rounds = self._n_tokens = 0.0
        self._next_rest = _SHORTEST_REST
        self._resting = 0

    @property
    def expected(self) -> float:
        """Tokens of a round with the pins."""
        return (self._n_tokens + _PRIOR_ROUNDS * _PRIOR_TOKENS) / (self._n_rounds + _PRIOR_ROUNDS)

    def observe(self, n_tokens: float) -> None:
        self._n_rounds = _KEPT * self._n_rounds + 1.0
        self._n_tokens = _KEPT * self._n_tokens + n_tokens
        self._next_rest = _SHORTEST_REST

    def refuse(self) -> None:
        self._resting = self._next_rest
        self._next_rest = min(2 * self._next_rest, _LONGEST_REST)

    def rests(self) -> bool:
        """Count a round; is it one of a rest?"""
        if not self._resting:
            return False
        self._resting -= 1
        if not self._resting:
            self._n_rounds, self._n_tokens = _REMEMBERED * self._n_rounds, _REMEMBERED * self._n_tokens
        return True


class Upkeep:
    """All drafters' records, by name. `kept`: those whose pins are in the pass under way.

    What other drafters are expected to give in that pass is not theirs.
    """

    def __init__(self) -> None:
        self.kept: frozenset[str] = frozenset()
        self._others = 0.0
        self._records: dict[str, Record] = {}

    def knows(self, drafter: str) -> bool:
        """Has it pinned anything yet? Then what its calls take is charged to its pins."""
        return drafter in self._records

    def rests(self, drafter: str) -> bool:
        """Count a round of the drafter; True if it is not to be asked."""
        record = self._records.get(drafter)
        return record is not None and record.rests()

    def expected(self, drafters: Iterable[str]) -> float:
        """Tokens of a round with the pins of all these: what is known of the best of them."""
        return max(self._record(drafter).expected for drafter in drafters)

    def refuse(self, drafters: Iterable[str]) -> None:
        """Their pins are not worth their rows now."""
        for drafter in drafters:
            self._record(drafter).refuse()

    def keep(self, drafters: Iterable[str], others: float = 0.0) -> None:
        """Their pins go into the pass under way, beside guesses of others that are expected to give so many tokens."""
        self.kept, self._others = frozenset(drafters), others

    def drop(self) -> None:
        """No pins go into the pass under way."""
        self.kept = frozenset()

    def settle(self, n_tokens: int) -> None:
        """The pass under way gave so many tokens."""
        for drafter in self.kept:
            self._record(drafter).observe(n_tokens - self._others)

    def _record(self, drafter: str) -> Record:
        return self._records.setdefault(drafter, Record())
