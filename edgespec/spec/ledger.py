"""The account that keeps speculation from ever costing much: what it has lost against plain decoding, and may risk.

Let L be the sum over drafted rounds of (elapsed - emitted * T1), drafting in plain rounds charged too. A round that may
take U, against T for the plain round it replaces, is allowed iff

    L + (U - T) <= eps * elapsed_total + c0,        c0 = 3 * T1,

and L never falls below eps * elapsed_total - 48 * T1, so that neither a good phase nor a long plain one can finance a
long bad one. A drafted round emits at least what a plain one would, so where U bounds its time L rises by at most
U - T; a plain round adds 0. Hence at every moment, with P what plain decoding would have taken,

    elapsed_total <= (P + c0) / (1 - eps),          P = M * T1 for M tokens at a constant T1.

Reading a prompt can cost a drafter more than c0 at once, though it pays for long. Such an investment of up to I seconds
may be lent: C of at most 32 * T1 is outstanding at any moment, and the gate then asks

    L + (U - T) - I <= eps * elapsed_total + c0 + C,        C + I <= 32 * T1.

C grows by what was really spent of I, and falls with the debt it stands for: to L - eps * elapsed_total where that is
less, never below 0. So an investment that gains, or that is slowly paid off by the allowance of eps, is lent once, and
a round's own losses are never lent. With it the bound at every moment is

    elapsed_total <= (P + c0 + C) / (1 - eps) <= (P + 35 * T1) / (1 - eps).

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

# The part of the allowance that may go into guesses that are not drafted; so many plain tokens are kept for them.
_LOOKS = 0.5

# What gains and unused allowance may add up to, in plain tokens.
_CAP_TOKENS = 48.0

# What may be lent for reading, in plain tokens: a prompt of a thousand tokens at a fortieth of a plain token each.
_CREDIT_TOKENS = 32.0

# One answer by itself may lose this share of its own time, and this many plain tokens at once, whatever others have
# gained: what it gained itself it may lose again, up to so many tokens.
_OWN_EPS = 0.01
_OWN_C0_TOKENS = 1.2
_OWN_CAP_TOKENS = 16.0

# A drafted round this far beyond its bound is the machine's doing: a plain one would have waited as well.
_STALL = 2.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One round, or several plain ones in a row, as it is settled and as it can be replayed.

    seconds: the whole round. draft_seconds: the part that plain decoding would not have had, the pass excepted.
    t1_seconds: the price of one token. bound_seconds: U of the pass in a drafted round; 0 marks a plain one, whatever
    was called in it. risk_seconds: U - T with drafting, what the gate was asked for; 0 if it was not asked.
    invested_seconds: the part of it that is lent, for reading.
    """

    seconds: float
    draft_seconds: float
    n_emitted: int
    t1_seconds: float
    bound_seconds: float = 0.0
    risk_seconds: float = 0.0
    invested_seconds: float = 0.0
    n_rounds: int = 1


class Account:
    """What drafted rounds have lost in one answer. Stricter than the ledger, which has the proof: gains of one answer
    must not pay for losses of another, since nobody reads them as a sum. What is lent
    for reading it may lose in this answer, or gain and lose again; like the ledger it lends 32 tokens at most.
    """

    __slots__ = ("_lent_seconds", "_lost_seconds", "_total_seconds")

    def __init__(self) -> None:
        self._lent_seconds = self._lost_seconds = self._total_seconds = 0.0

    def headroom(self, t1_seconds: float) -> float:
        """Seconds that may be risked now."""
        allowed = _OWN_EPS * self._total_seconds + _OWN_C0_TOKENS * t1_seconds
        return allowed + self._lent_seconds - self._lost_seconds

    def credit(self, t1_seconds: float) -> float:
        """Seconds that may be lent now."""
        return _CREDIT_TOKENS * t1_seconds - self._lent_seconds

    def settle(
        self, seconds: float, n_emitted: int, t1_seconds: float, drafted: bool, invested_seconds: float = 0.0
    ) -> None:
        """A round took `seconds` of this answer's time, of which so many were lent."""
        self._total_seconds += seconds
        if drafted:
            lost = self._lost_seconds + seconds - n_emitted * t1_seconds
            self._lost_seconds = max(lost, -_OWN_CAP_TOKENS * t1_seconds)
            self._lent_seconds += invested_seconds


class Ledger:
    """`lost_seconds` is L, `lent_seconds` C; `plain_seconds` is P so far, `total_seconds` the time of all rounds."""

    def __init__(self) -> None:
        self.lost_seconds = 0.0
        self.lent_seconds = 0.0
        self.total_seconds = 0.0
        self.plain_seconds = 0.0
        self.stalled_seconds = 0.0
        self._t1_max = 0.0
        self._for_looks = 0.0
        self._stalled = False

    def headroom(self, t1_seconds: float) -> float:
        """Seconds that may be risked now; negative when too much was lost already."""
        return EPS * self.total_seconds + _C0_TOKENS * t1_seconds + self.lent_seconds - self.lost_seconds

    def credit(self, t1_seconds: float) -> float:
        """Seconds that may be lent now."""
        return _CREDIT_TOKENS * t1_seconds - self.lent_seconds

    def allows(self, risk_seconds: float, t1_seconds: float, invested_seconds: float = 0.0) -> bool:
        """May a round be run that can take `risk_seconds` longer than plain decoding of the tokens it surely emits?

        Of the risk, `invested_seconds` are to be lent.
        """
        if invested_seconds > 0.0 and invested_seconds > self.credit(t1_seconds):
            return False
        return risk_seconds - invested_seconds <= self.headroom(t1_seconds)

    def allows_look(self, risk_seconds: float, t1_seconds: float) -> bool:
        """May a drafter be asked that takes so long, for guesses that may then not be worth a draft?

        Once c0 has been touched, looks have half of what comes in: if they had all of it, nothing would ever be left
        for a draft, however good its guesses.
        """
        headroom = self.headroom(t1_seconds)
        return risk_seconds <= headroom and (headroom >= _C0_TOKENS * t1_seconds or risk_seconds <= self._for_looks)

    @property
    def limit_seconds(self) -> float:
        """What `total_seconds` may not exceed as long as no drafted round took longer than its bound."""
        return (self.plain_seconds + _C0_TOKENS * self._t1_max + self.lent_seconds) / (1.0 - EPS)

    def settle(self, entry: Entry) -> None:
        self._t1_max = max(self._t1_max, entry.t1_seconds)
        self.total_seconds += entry.seconds
        coming_in = self._for_looks + _LOOKS * EPS * entry.seconds
        self._for_looks = min(coming_in, _LOOKS * entry.t1_seconds)
        if not (entry.bound_seconds or entry.invested_seconds or self.lent_seconds):  # most rounds: plain ones
            self._stalled = False
            if entry.draft_seconds > 0.0:
                self._for_looks = max(0.0, self._for_looks) - entry.draft_seconds
            self.plain_seconds += entry.seconds - entry.draft_seconds
            floor = EPS * self.total_seconds - _CAP_TOKENS * entry.t1_seconds
            self.lost_seconds = max(self.lost_seconds + entry.draft_seconds, floor)
            return
        stall = self._stall(entry)
        plain = entry.n_emitted * entry.t1_seconds if entry.bound_seconds else entry.seconds - entry.draft_seconds
        self.stalled_seconds += stall
        self.plain_seconds += plain + stall
        self.lost_seconds += entry.seconds - plain - stall
        self.lost_seconds = max(self.lost_seconds, EPS * self.total_seconds - _CAP_TOKENS * entry.t1_seconds)
        lent = self.lent_seconds + min(entry.invested_seconds, entry.draft_seconds)
        self.lent_seconds = max(0.0, min(lent, self.lost_seconds - EPS * self.total_seconds))

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
        n_rounds += entry.n_rounds
        if entry.risk_seconds > 0.0 and not ledger.allows(entry.risk_seconds, entry.t1_seconds, entry.invested_seconds):
            n_refused += 1
        before = ledger.total_seconds - ledger.plain_seconds
        ledger.settle(entry)
        overshoot = max(overshoot, ledger.total_seconds - ledger.plain_seconds - before - entry.risk_seconds)
        worst = max(worst, ledger.total_seconds - ledger.limit_seconds)
    return Replay(n_rounds, n_refused, worst, overshoot, ledger.total_seconds, ledger.limit_seconds)
