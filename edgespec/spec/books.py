"""What rounds have taught a policy: prices, acceptance, and the accounts of what drafting has cost.

Contract: fed with rounds after they are over; decides nothing. Clock-free; learns across requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq

from edgespec.events import RoundReport
from edgespec.spec.acceptance import Acceptance
from edgespec.spec.accounts import Accounts
from edgespec.spec.calls import Calls
from edgespec.spec.cost import CostTable, DraftCosts
from edgespec.spec.ledger import Entry, Ledger
from edgespec.spec.livecosts import LiveCosts
from edgespec.spec.policy import Offer, Proposed
from edgespec.spec.ports import SequenceId
from edgespec.spec.prices import Prices
from edgespec.spec.rests import Rests
from edgespec.spec.sequence import SequenceState
from edgespec.spec.underway import Round
from edgespec.spec.upkeep import Upkeep

# Of quiet rounds in a row only every fourth is looked at closely: plain decoding should not pay for being watched.
_LOOK_EVERY = 4


class Books:
    """`draft_costs`: what the calls of drafters that cost time were measured to take, by name. `journal` gets every
    ledger entry.

    t1_seconds: of a token by plain decoding, now. around_seconds: what a drafted round takes beyond its calls and its
    pass. rests: rounds that are not booked yet.
    """

    def __init__(
        self, table: CostTable, draft_costs: Mapping[str, DraftCosts], journal: Callable[[Entry], None] | None
    ) -> None:
        self.costs = LiveCosts(table)
        self.prices = Prices(self.costs)
        self.acceptance = Acceptance()
        self.ledger = Ledger()
        self.calls = Calls(self.costs, self.acceptance, self.ledger, draft_costs)
        self.accounts = Accounts()
        self.upkeep = Upkeep()
        self.t1_seconds = self.costs.seconds(1, 0)
        self.around_seconds = 0.0
        self._journal = journal
        self._known_costs = {table: self.costs}
        self.rests = Rests()
        self._n_quiet = 0

    # -- rounds in which nobody had anything to propose ----------------------------------------------------------------

    def rest(self, states: Seq[SequenceState], report: RoundReport, n_emitted: int, draft_seconds: float) -> bool:
        """Note a round; True if all noted ones are to be settled now."""
        sequences = tuple([state.id for state in states])
        if not self.rests.fits(sequences, report.n_rows):
            self.settle_rests()
        rests, context = self.rests, len(states[0].tokens)
        rests.add(sequences, report.n_rows, context, n_emitted, report.seconds, report.verify_seconds, draft_seconds)
        return rests.is_full or any(state.finish is not None for state in states)

    def settle_rests(self, ended: Seq[SequenceState] = ()) -> None:
        """Book the noted rounds, as one entry. ended: sequences that may be over."""
        rests = self.rests
        if rests.n_rounds:
            self.rests = Rests()
            t1 = self.t1_seconds
            entry = Entry(rests.seconds, rests.draft_seconds, rests.n_emitted, t1, n_rounds=rests.n_rounds)
            self._settle(entry)
            share = rests.seconds / len(rests.sequences)
            for sequence in rests.sequences:
                self.accounts.of(sequence).settle(share, 0, t1, drafted=False)
            for pass_seconds, overhead_seconds in rests.looks():
                self.costs.observe_plain(rests.n_rows, rests.context, pass_seconds, overhead_seconds)
            self.prices.forget()
            self._price_token(rests.n_rows, rests.context, len(rests.sequences))
        for state in ended:
            self._close(state)

    # -- the others ----------------------------------------------------------------------------------------------------

    def record(self, done: Round, offers: Seq[Offer], reports: Seq[RoundReport], draft_seconds: float) -> None:
        report = reports[0]
        n_emitted = sum(len(one.tokens) for one in reports)
        entry = Entry(
            report.seconds,
            draft_seconds,
            n_emitted,
            done.t1_seconds,
            done.bound_seconds,
            done.risk_seconds,
            done.invested_seconds,
        )
        self._settle(entry)
        self.upkeep.settle(n_emitted)
        if done.n_nodes:
            gained = n_emitted * done.t1_seconds - report.seconds + done.invested_seconds
            self.calls.investments.settle([name for one in done.weighed for name in one.watches], gained)
        is_scored = done.weighed or done.probing or any(self.acceptance.follows(offer.state.id) for offer in offers)
        if is_scored:
            self._score(done, offers, reports)
        self._settle_accounts(done, offers, reports)
        if not is_scored and self._n_quiet % _LOOK_EVERY and not self.costs.needs_plain:
            self._n_quiet += 1
            return
        self._n_quiet = 0 if done.weighed else self._n_quiet + 1
        self._learn_costs(done, [one for offer in offers for one in offer.proposed], report, draft_seconds)
        self.prices.forget()
        self.t1_seconds = done.t1_seconds
        if not done.n_nodes:
            self._price_token(report.n_rows, done.context, len(reports))

    def end(self, sequence: SequenceId) -> None:
        """Forget what is known of this answer alone: its next guesses, if it has any, are about another text."""
        self.accounts.close(sequence)
        self.calls.investments.end(sequence)
        self.acceptance.forget(sequence)

    def charge(self, seconds: float) -> None:
        """Drafters took this time outside of rounds, say to read a prompt: the ledger has to earn it back."""
        self._settle(Entry(seconds, seconds, 0, self.t1_seconds))

    def reprice(self, table: CostTable) -> bool:
        """Passes cost what `table` says now; what rounds have taught about each table is kept for its return. False if
        it is the same.
        """
        if table == self.costs.table:
            return False
        self.costs = self._known_costs.setdefault(table, LiveCosts(table))
        self.calls.reprice(self.costs)
        self.prices = Prices(self.costs)
        self.t1_seconds = self.costs.seconds(1, 0)
        self._n_quiet = 0
        return True

    def _price_token(self, n_rows: int, context: int, n_sequences: int) -> None:
        width = self.costs.table.next_below(n_rows)
        self.t1_seconds = self.costs.seconds(width, context) / n_sequences

    def _settle(self, entry: Entry) -> None:
        self.ledger.settle(entry)
        if self._journal is not None:
            self._journal(entry)

    def _settle_accounts(self, done: Round, offers: Seq[Offer], reports: Seq[RoundReport]) -> None:
        n = len(reports)
        for offer, report in zip(offers, reports, strict=True):
            account = self.accounts.of(offer.state.id)
            invested = done.lent.get(offer.state.id, 0.0)
            account.settle(report.seconds / n, len(report.tokens), done.t1_seconds, done.n_nodes > 0, invested)
            self._close(offer.state)

    def _close(self, state: SequenceState) -> None:
        if state.finish is not None:
            self.end(state.id)

    def _learn_costs(self, done: Round, calls: Seq[Proposed], report: RoundReport, draft_seconds: float) -> None:
        for one in calls:
            self.calls.observe(one)
        undrafted = report.seconds - draft_seconds
        if done.n_nodes:
            # What walking and committing a draft takes beyond a plain round is a part of its width's price.
            self.costs.observe_drafted(report.n_rows, done.context, undrafted - self.costs.overhead_seconds)
        else:
            overhead = max(0.0, undrafted - report.verify_seconds)
            self.costs.observe_plain(report.n_rows, done.context, report.verify_seconds, overhead)
        around = max(0.0, draft_seconds - sum(one.seconds for one in calls))
        self.around_seconds += 0.1 * (min(around, 3.0 * self.around_seconds + 1e-4) - self.around_seconds)

    def _score(self, done: Round, offers: Seq[Offer], reports: Seq[RoundReport]) -> None:
        for index, (offer, report) in enumerate(zip(offers, reports, strict=True)):
            position = len(offer.state.tokens) - len(report.tokens)
            watches = done.weighed[index].watches if done.weighed else {}
            for one in offer.proposed:
                watch = watches.get(one.drafter)
                self.acceptance.score(offer.state.id, one.drafter, watch, position, report.tokens)
                if one.drafter in done.probing:
                    self.calls.settle(one.drafter, watch is not None and watch.n_right > 0)
