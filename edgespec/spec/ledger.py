"""The account that keeps speculation from ever costing much: what it has lost against plain decoding, and may risk.

Let L be the sum over drafted rounds of (elapsed - emitted * T1), drafting in plain rounds charged too. A round that may
take U, against T for the plain round it replaces, is allowed iff

    L + (U - T) <= eps * elapsed_total + c0,        c0 = 3 * T1,

and L never falls below eps * elapsed_total - 48 * T1, so that neither a good phase nor a long plain one can finance a
long bad one. A drafted round emits at least what a plain one would, so where U bounds its time L rises by at most
U - T; a plain round adds 0. Hence at every moment, with P what plain decoding would have taken,

    elapsed_total <= (P + c0) / (1 - eps),          P = M * T1 for M tokens at a constant T1.

Contract: arithmetic on entries handed in; knows no tables. T1 is the price of one token by plain decoding, of a batch
the plain pass over its sequences. Where T1 changes, c0 stands for its largest value so far. The floor on L is stricter
than the proof needs, which only ever makes the gate stricter.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

# The share of all time that may be lost for good.
EPS = 0.02

# What may be lost at once, in plain tokens. Without it no first draft could ever be tried.
_C0_TOKENS = 3.0

# What gains and unused allowance may add up to, in plain tokens.
_CAP_TOKENS = 48.0

# One answer by itself may lose this share of its own time, and this many plain tokens at once, whatever others have
# gained: what it gained itself it may lose again, up to so many tokens.
_OWN_EPS = 0.01
_OWN_C0_TOKENS = 1.2
_OWN_CAP_TOKENS = 16.0

# A drafted round this far beyond its bound is the machine's doing: a plain one would have waited as well.
_STALL = 2.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One round, as it is settled and as it can be replayed.

    seconds: the whole round. draft_seconds: the part that plain decoding would not have had, the pass excepted.
    t1_seconds: the price of one token. bound_seconds: U of the pass in a drafted round; 0 marks a plain one, whatever
    was called in it. risk_seconds: U - T with drafting, what the gate was asked for; 0 if it was not asked.
    """

    seconds: float
    draft_seconds: float
    n_emitted: int
    t1_seconds: float
    bound_seconds: float = 0.0
    risk_seconds: float = 0.0


class Account:
    """What drafted rounds have lost in one answer. Stricter than the ledger, which has the proof: gains of one answer
    must not pay for losses of another, since nobody reads them as a sum.
    """

    __slots__ = ("_lost_seconds", "_total_seconds")

    def __init__(self) -> None:
        self._lost_seconds = self._total_seconds = 0.0

    def headroom(self, t1_seconds: float) -> float:
        """Seconds that may be risked now."""
        return _OWN_EPS * self._total_seconds + _OWN_C0_TOKENS * t1_seconds - self._lost_seconds

    def settle(self, seconds: float, n_emitted: int, t1_seconds: float, drafted: bool) -> None:
        """A round took `seconds` of this answer's time."""
        self._total_seconds += seconds
        if drafted:
            lost = self._lost_seconds + seconds - n_emitted * t1_seconds
            self._lost_seconds = max(lost, -_OWN_CAP_TOKENS * t1_seconds)


class Ledger:
    """`lost_seconds` is L; `plain_seconds` is P so far, `total_seconds` the time of all rounds."""

    def __init__(self) -> None:
        self.lost_seconds = 0.0
        self.total_seconds = 0.0
        self.plain_seconds = 0.0
        self.stalled_seconds = 0.0
        self._t1_max = 0.0
        self._stalled = False

    def headroom(self, t1_seconds: float) -> float:
        """Seconds that may be risked now; negative when too much was lost already."""
        return EPS * self.total_seconds + _C0_TOKENS * t1_seconds - self.lost_seconds

    def allows(self, risk_seconds: float, t1_seconds: float) -> bool:
        """May a round be run that can take `risk_seconds` longer than plain decoding of the tokens it surely emits?"""
        return risk_seconds <= self.headroom(t1_seconds)

    @property
    def limit_seconds(self) -> float:
        """What `total_seconds` may not exceed as long as no drafted round took longer than its bound."""
        return (self.plain_seconds + _C0_TOKENS * self._t1_max) / (1.0 - EPS)

    def settle(self, entry: Entry) -> None:
        self._t1_max = max(self._t1_max, entry.t1_seconds)
        self.total_seconds += entry.seconds
        stall = self._stall(entry)
        plain = entry.n_emitted * entry.t1_seconds if entry.bound_seconds else entry.seconds - entry.draft_seconds
        self.stalled_seconds += stall
        self.plain_seconds += plain + stall
        self.lost_seconds += entry.seconds - plain - stall
        self.lost_seconds = max(self.lost_seconds, EPS * self.total_seconds - _CAP_TOKENS * entry.t1_seconds)

    def _stall(self, entry: Entry) -> float:
        """Seconds forgiven. Twice in a row they are not: then it is the bound that is wrong, not the machine."""
        beyond = entry.seconds - entry.draft_seconds - _STALL * entry.bound_seconds
        self._stalled = bool(entry.bound_seconds) and beyond > 0.0 and not self._stalled
        return entry.seconds - entry.draft_seconds - entry.bound_seconds if self._stalled else 0.0


@dataclass(frozen=True, slots=True)
class Replay:
    """What recorded rounds show. n_refused: drafted rounds that the gate should not have let through.

    worst_seconds: the most that total time ever exceeded its limit by, negative if never. overshoot_seconds: the most
    that a single round lost beyond what the gate was asked for.
    """

    n_rounds: int
    n_refused: int
    worst_seconds: float
    overshoot_seconds: float
    total_seconds: float
    limit_seconds: float

    @property
    def kept(self) -> bool:
        """The gate was obeyed, and the limit kept but for the one round that was longer than foreseen."""
        return self.n_refused == 0 and self.worst_seconds * (1.0 - EPS) <= self.overshoot_seconds + 1e-9


def replay(entries: Iterable[Entry]) -> Replay:
    """Run recorded rounds through a new ledger; they must be all of them, in order."""
    ledger = Ledger()
    n_rounds = n_refused = 0
    worst, overshoot = -float("inf"), 0.0
    for entry in entries:
        n_rounds += 1
        if entry.risk_seconds > 0.0 and not ledger.allows(entry.risk_seconds, entry.t1_seconds):
            n_refused += 1
        before = ledger.total_seconds - ledger.plain_seconds
        ledger.settle(entry)
        overshoot = max(overshoot, ledger.total_seconds - ledger.plain_seconds - before - entry.risk_seconds)
        worst = max(worst, ledger.total_seconds - ledger.limit_seconds)
    return Replay(n_rounds, n_refused, worst, overshoot, ledger.total_seconds, ledger.limit_seconds)
