"""Whether the draft model of an answer works beside the target, on cores that are left to it, or in turn with it.

Beside it the target has fewer cores, which pays only while guesses are right. So every answer has an account of its
own: what its rounds beside the draft took against plain decoding on all cores. When that is spent, the cores go back to
the target, and after a while of plain or in-turn rounds it is tried again, each time later. An answer that is drafted
for in turn stays so; which of the two it is, `standings` says. Contract: arithmetic on rounds handed in; knows
no threads and no clock. Used by the worker's thread only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from edgespec.engine.pair.standings import BESIDE, IN_TURN, Standings
from edgespec.spec.latency import Placement
from edgespec.spec.ledger import Account

# Tokens until the draft may work beside the target again after it has lost what it may; doubled each time.
_FIRST_WAIT = 32
_LONGEST_WAIT = 1024


@dataclass(slots=True)
class Course:
    """One answer's: `beside` holds for the next round. way: how it is drafted for. standings: told of its rounds."""

    beside: bool
    way: Placement = BESIDE
    standings: Standings | None = None
    account: Account = field(default_factory=Account)
    wait_tokens: int = 0
    next_wait: int = _FIRST_WAIT

    def settle(self, seconds: float, n_emitted: int, t1_seconds: float) -> None:
        """A round took `seconds`; plain decoding on all cores takes `t1_seconds` for a token."""
        if self.standings is not None:
            self.standings.settle(self.way, seconds, n_emitted, t1_seconds)
        if self.way is IN_TURN:
            return
        self.account.settle(seconds, n_emitted, t1_seconds, self.beside)
        if self.beside and self.account.headroom(t1_seconds) < 0.0:
            self.beside = False
            self.wait_tokens, self.next_wait = self.next_wait, min(_LONGEST_WAIT, 2 * self.next_wait)
        elif not self.beside:
            self.wait_tokens -= n_emitted
            if self.wait_tokens <= 0 and self.account.headroom(t1_seconds) > t1_seconds:
                self.beside = True


def beside_course() -> Course:
    return Course(beside=True)


class Placer:
    """work_ahead: told before every round whether the draft has a core; None where none ever works beside the target.
    t1_seconds: of a token by plain decoding on all cores, by tokens of context. course: of the answer whose drafters
    were made last.
    """

    def __init__(
        self,
        work_ahead: Callable[[bool], None] | None = None,
        t1_seconds: Callable[[int], float] = lambda _context: 0.0,
        course: Callable[[], Course] = beside_course,
    ) -> None:
        self._work_ahead = work_ahead
        self._t1_seconds = t1_seconds
        self._course = course
        self._told = True

    def begin(self, exact: bool, drafts: bool) -> Course | None:
        """The course of an answer; None for one that `drafts` without the second model. Exact answers keep all threads,
        since another number of them may change the last bits.
        """
        return self._course() if self._work_ahead is not None and drafts and not exact else None

    def work_ahead(self, may: bool) -> None:
        if self._work_ahead is not None and may != self._told:
            self._told = may
            self._work_ahead(may)

    def plain_seconds(self, context: int) -> float:
        return self._t1_seconds(context)
