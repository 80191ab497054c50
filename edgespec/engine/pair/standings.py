"""Which of the ways to run the draft model has cost less, in turn with the target or beside it: one for each answer.

It begins with what was predicted. Rounds that contradict that for long change it, and now and then an answer is made
the other way, as far as the account allows what that may lose against the way that is taken: 1 % of all time, and what
one short answer may lose. Costs are plain tokens of time per token, so that texts and threads do not matter. Contract:
arithmetic on rounds handed in; knows no threads, no models and no clock. Used by the worker's thread only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgespec.events import Notice
from edgespec.spec.latency import Placement
from edgespec.spec.ledger import Account

# Rounds count so much less with each token that follows: some thousand tokens decide, which is a few answers.
_KEPT = 0.999
# A prediction is worth so many tokens of experience: a trial must be able to overturn it.
_PREDICTED_TOKENS = 32.0
# Before so many tokens nothing is changed: a policy that has just met its drafter does not show what it will do.
_LEAST_TOKENS = 256
# The other way must be cheaper by this factor; less is what costs change by from text to text.
_CLEARLY = 1.04
# Tokens before the other way is tried, doubled with each trial that changed nothing.
_FIRST_WAIT, _LONGEST_WAIT = 1024, 16384
# Tokens of a trial, in whole answers: fewer say little about a policy that must find out what calls cost there.
_TRIAL_TOKENS = 256

IN_TURN, BESIDE = Placement.SERIAL, Placement.OVERLAPPED


@dataclass(slots=True)
class Standing:
    """One way. predicted: its cost, in plain tokens of time per token. spent, emitted: what its rounds have shown."""

    predicted: float
    spent: float = 0.0
    emitted: float = 0.0

    def cost(self, factor: float = 1.0) -> float:
        """factor: what the prediction is corrected by."""
        return (self.spent + _PREDICTED_TOKENS * factor * self.predicted) / (self.emitted + _PREDICTED_TOKENS)

    def settle(self, spent: float, n_emitted: int) -> None:
        kept = _KEPT**n_emitted
        self.spent = self.spent * kept + spent
        self.emitted = self.emitted * kept + n_emitted


class Standings:
    """predicted: of both ways, plain tokens of time per token. present: the way that answers take, but for trials."""

    def __init__(self, name: str, predicted: Mapping[Placement, float], present: Placement) -> None:
        self.present = present
        self._name = name
        self._ways = {way: Standing(predicted[way]) for way in (IN_TURN, BESIDE)}
        self._account = Account()
        self._n_tokens = 0
        self._wait, self._next_wait = _FIRST_WAIT, 2 * _FIRST_WAIT
        self._trial_left = 0
        self._changed = False

    def cost(self, way: Placement) -> float:
        """Plain tokens of time per token. Where one way turned out better than predicted, the other one is taken to be
        so, too: both hang on how often the draft is right. Not so where it is worse, which one alone may be.
        """
        one = self._ways[_other(way)]
        return self._ways[way].cost(min(1.0, one.cost() / one.predicted))

    def choose(self) -> Placement:
        """The way of the answer that begins now."""
        other = _other(self.present)
        if self._trial_left > 0:
            return other
        if self._n_tokens >= _LEAST_TOKENS and self.cost(other) * _CLEARLY < self.cost(self.present):
            self.present, other = other, self.present
            self._n_tokens = 0
            self._changed = True
        elif self._wait <= 0 and self._may_try(other):
            self._wait, self._next_wait = self._next_wait, min(_LONGEST_WAIT, 2 * self._next_wait)
            self._trial_left = _TRIAL_TOKENS
            return other
        return self.present

    def _may_try(self, other: Placement) -> bool:
        loss = _TRIAL_TOKENS * max(0.0, self.cost(other) - self.cost(self.present))
        return loss <= self._account.headroom(self.cost(self.present))

    def settle(self, way: Placement, seconds: float, n_emitted: int, t1_seconds: float) -> None:
        """A round of an answer that is made this way took `seconds`; plain decoding takes `t1_seconds` for a token."""
        spent = seconds / t1_seconds
        self._account.settle(spent, n_emitted, self.cost(self.present), way is not self.present)
        self._ways[way].settle(spent, n_emitted)
        if way is self.present:
            self._n_tokens += n_emitted
            self._wait -= n_emitted
        else:
            self._trial_left -= n_emitted

    def notice(self) -> Notice | None:
        """What a user should know once after a change."""
        if not self._changed:
            return None
        self._changed = False
        before = _other(self.present)
        costs = f"that takes {self.cost(before):.2f} of plain decoding's time, and {self.cost(self.present):.2f}"
        if self.present is IN_TURN:
            why = f"{costs} is expected in turn with it"
            return Notice("draft-in-turn", f"{self._name} no longer drafts beside the model: {why}")
        why = f"{costs} is expected beside it"
        return Notice("draft-beside", f"{self._name} no longer drafts in turn with the model: {why}")


def _other(way: Placement) -> Placement:
    return BESIDE if way is IN_TURN else IN_TURN
