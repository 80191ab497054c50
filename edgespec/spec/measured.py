"""The measured policy: draft where measured prices and learned acceptance say that it pays, and never lose much.

Each round it takes, of all sequences' trees together, the n likeliest nodes for the n that maximises

    goodput(n) = (n_sequences + sum of their survivals) / (drafting + T_v(rows) + overhead)

over every n whose width was measured, n = 0 included, as far as the ledger lets it. In exact mode a pass costs what the
padded one does. Rounds in which nobody has a guess are most rounds of most answers, so they go a short way.

Contract: a spec.policy.Policy for one loop and one target; clock-free, driven by what the loop hands in. It learns
across requests. Prices come from a `CostTable`, so it knows no model.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq

from edgespec.events import RoundReport
from edgespec.spec.acceptance import Acceptance
from edgespec.spec.books import Books
from edgespec.spec.calls import NO_PLAN, Calls
from edgespec.spec.claims import Claims
from edgespec.spec.cost import CostTable, DraftCosts
from edgespec.spec.explaining import explanation
from edgespec.spec.keeping import Kept, any_pinned, keep_pinned
from edgespec.spec.ledger import Entry, Ledger
from edgespec.spec.livecosts import LiveCosts
from edgespec.spec.policy import Decision, Explanation, Offer, Proposed, Reason, Selection
from edgespec.spec.ports import Capabilities, Plan, SequenceId
from edgespec.spec.predict import best_size, least_node
from edgespec.spec.prices import Pricing
from edgespec.spec.sequence import SequenceState
from edgespec.spec.tree import EMPTY, DraftMode, none_kept
from edgespec.spec.underway import Round, spent_of_grants
from edgespec.spec.weighed import Weighed, is_worth_a_look, ranked, shares, weigh

# Drafting must promise this much more than plain decoding: below it the estimates' own errors decide, and of several
# sizes the one that is overrated most looks best.
_MARGIN = 1.05

# One whose steps come true this much more often than it claims may grow drafts that it thinks hopeless.
_HONEST = 1.1


class MeasuredPolicy:
    """`draft_costs`: what the calls of drafters that cost time were measured to take, by name.

    `journal` gets every ledger entry. Reads as public: costs, acceptance, ledger, calls, decision (the last one).
    """

    def __init__(
        self,
        table: CostTable,
        draft_costs: Mapping[str, DraftCosts] | None = None,
        max_leaves: int = 1,
        journal: Callable[[Entry], None] | None = None,
    ) -> None:
        self._books = Books(table, draft_costs or {}, journal)
        self.decision = Decision(Reason.NO_DRAFTER, 1, 0, 1, 1.0, 0.0, 0.0)
        self._max_leaves = max_leaves
        self._rounds: Counter[Reason] = Counter()
        self._plan = NO_PLAN
        self._claims, self._least_node = Claims(table, _MARGIN), least_node(table)
        self._unasked: Counter[Reason] = Counter()  # of the rounds that rest
        self._round = Round((), 0, 0, 0.0, 0.0, 0.0, frozenset(), {})

    @property
    def costs(self) -> LiveCosts:
        return self._books.costs

    @property
    def acceptance(self) -> Acceptance:
        return self._books.acceptance

    @property
    def ledger(self) -> Ledger:
        """Rounds that rested lately are not in it yet."""
        return self._books.ledger

    @property
    def calls(self) -> Calls:
        return self._books.calls

    @property
    def t1_seconds(self) -> float:
        return self._books.t1_seconds

    # -- plan -------------------------------------------------------------------------------------------------------

    def plan(
        self,
        state: SequenceState,
        drafter: str,
        capabilities: Capabilities,
        n_sequences: int,
        offered: Seq[Proposed] = (),
        n_behind: int = 0,
    ) -> Plan:
        if self._books.rests.n_rounds:
            self._settle_rests()
        # An exact request's draft is one branch.
        leaves = 1 if state.exact else max(1, min(self._max_leaves, capabilities.max_leaves))
        n_nodes = self._room(state, capabilities, n_sequences, leaves)
        if n_nodes <= 0 or not self._may_pay(n_sequences):
            return NO_PLAN
        if self._books.upkeep.rests(drafter):
            self.calls.refusal = Reason.NOT_WORTH_IT
            return NO_PLAN
        if self._books.upkeep.knows(drafter) or self.calls.is_free(drafter, self._books.t1_seconds):
            if not self.calls.may_ask(self._books.t1_seconds):
                return NO_PLAN
        else:
            n_pending = len(state.pending) + n_sequences - 1
            pricing = self._books.prices.pricing(n_sequences, n_pending, len(state.tokens), state.width_class)
            room, account = Plan(n_nodes, leaves), self._books.accounts.of(state.id)
            return self.calls.plan(drafter, state, room, pricing, offered, n_behind, account)
        # Where padding is free, every guess is; and what a modest drafter claims says little.
        is_taken_at_its_word = not state.exact and self.acceptance.profile(drafter).trust <= _HONEST
        least = self._least_node if is_taken_at_its_word else 0.0
        known = self._plan
        if (known.max_nodes, known.max_leaves, known.min_survival) != (n_nodes, leaves, least):
            self._plan = Plan(n_nodes, leaves, min_survival=least)
        return self._plan

    def _room(self, state: SequenceState, capabilities: Capabilities, n_sequences: int, leaves: int) -> int:
        """Nodes one sequence may have, if the others draft nothing. When there are none, the reason is noted."""
        if not capabilities.can_rollback:
            self.calls.refusal = Reason.NO_ROLLBACK
            return 0
        others = len(state.pending) + n_sequences - 1
        useful = (state.remaining - 1) * leaves
        room = min(capabilities.max_rows - others, capabilities.n_ctx - len(state.tokens), useful)
        self.calls.refusal = Reason.LIMIT if room <= 0 else Reason.UNMEASURED
        return min(room, self._books.prices.widest(state.width_class, capabilities.max_rows) - others)

    def _may_pay(self, n_sequences: int) -> bool:
        if self._claims.may_pay(n_sequences, self._books.prices):
            return True
        self.calls.refusal = Reason.NOT_WORTH_IT
        return False

    # -- select -----------------------------------------------------------------------------------------------------

    def select(self, offers: Seq[Offer], capabilities: Capabilities) -> list[Selection]:
        if self._books.rests.n_rounds:
            self._settle_rests()
        least = self._claims.least(len(offers))
        if not any(is_worth_a_look(offer, least) for offer in offers):
            return self._select_nothing(offers)
        self._books.upkeep.drop()
        weighed = [weigh(offer, self.acceptance) for offer in offers]
        n_pending = sum(len(offer.state.pending) for offer in offers)
        context = sum(one.position for one in weighed) // len(weighed)
        width_class = offers[0].state.width_class
        pricing = self._books.prices.pricing(len(offers), n_pending, context, width_class)
        room = self._books.prices.widest(width_class, capabilities.max_rows) - n_pending
        survivals = ranked(weighed)[: max(0, room)]
        spent = sum(one.seconds for offer in offers for one in offer.proposed)
        own = self._books.accounts.headroom((offer.state.id for offer in offers), pricing.t1_seconds)
        lent = spent_of_grants(offers, self.calls.investments.lent)
        invested = sum(lent.values())
        ledger = self.ledger.headroom(pricing.t1_seconds)
        beside = invested + pricing.plain_seconds - spent - self._books.around_seconds
        longest = (ledger + beside) / self.costs.excess.factor
        strict = (min(own, ledger) + beside) / self.costs.excess.factor
        n_nodes = self._choose(survivals, pricing, spent - invested, longest, weighed)
        # Beside what its own account has left, an answer may risk what its guesses promise: where passes of some rows
        # cost several plain ones, no draft long enough to pay would ever be tried without.
        believed = own + pricing.t1_seconds * sum(survivals[:n_nodes])
        if n_nodes and pricing.seconds[n_nodes] * self.costs.excess.factor > believed + beside:
            longest = strict
            n_nodes = self._choose(survivals, pricing, spent - invested, longest, weighed)
        tokens, seconds = len(offers) + sum(survivals[:n_nodes]), pricing.seconds[n_nodes]
        kept = self._keep_pinned(offers, pricing, spent - invested, strict)
        if kept is not None:
            weighed, n_nodes, tokens, seconds = [kept.weighed], kept.n_nodes, kept.tokens, kept.seconds
        reason = Reason.DRAFTED if n_nodes else self._why_plain(survivals, pricing, spent - invested, longest)
        self._decide(reason, n_nodes, n_pending, tokens, spent + seconds, pricing)
        self._remember_claim(offers, reason)
        bound = seconds * self.costs.excess.factor if n_nodes else 0.0
        risk = (
            bound + spent + self._books.around_seconds - pricing.plain_seconds if n_nodes else self.calls.risk_seconds
        )
        self._begin(weighed, context, n_nodes, pricing.t1_seconds, bound, risk, lent if n_nodes else None)
        n_likely = n_nodes - sum(one.n_pinned for one in weighed)
        return [one.select(n) for one, n in zip(weighed, shares(weighed, n_likely), strict=True)]

    def _select_nothing(self, offers: Seq[Offer]) -> list[Selection]:
        n_sequences, t1 = len(offers), self._books.t1_seconds
        reason = self.calls.refusal
        for offer in offers:
            for one in offer.proposed:
                if one.plan.max_nodes:
                    reason = Reason.NO_MATCH
        self._rounds[reason] += 1
        self._books.upkeep.drop()
        plain = t1 * n_sequences
        self.decision = Decision(reason, n_sequences, 0, n_sequences, float(n_sequences), plain, plain)
        self._begin((), len(offers[0].state.tokens), 0, t1, 0.0, self.calls.risk_seconds)
        return [Selection(EMPTY, tuple(none_kept(one.tree) for one in offer.proposed)) for offer in offers]

    def _begin(
        self,
        weighed: Seq[Weighed],
        context: int,
        n_nodes: int,
        t1: float,
        bound: float,
        risk: float,
        lent: Mapping[SequenceId, float] | None = None,
    ) -> None:
        probing = frozenset(self.calls.probing)
        lent = dict(self.calls.investments.lent) if lent is None else lent
        self._round = Round(weighed, context, n_nodes, t1, bound, risk, probing, lent)
        self.calls.begin_round()

    def _choose(
        self, survivals: Seq[float], pricing: Pricing, spent: float, longest: float, weighed: Seq[Weighed]
    ) -> int:
        """How many of the ranked nodes go into the pass, which may take up to `longest` seconds."""
        if self.costs.needs_plain:
            return 0
        if any(one.tree.mode is DraftMode.SAMPLED for one in weighed):
            # Its drafter stopped causally; leaving out some nodes now would bias what is accepted.
            return len(survivals) if pricing.seconds[len(survivals)] <= longest else 0
        n_best = best_size(survivals, pricing.seconds, pricing.n_sequences, spent, longest, _MARGIN)
        return pricing.or_trial(n_best, survivals, spent, longest)

    def _keep_pinned(self, offers: Seq[Offer], pricing: Pricing, spent: float, longest: float) -> Kept | None:
        """The pass with what drafters want for its rows, if that is better than any pass without."""
        if self.costs.needs_plain or not any_pinned(offers):
            return None
        return keep_pinned(offers, self.acceptance, self._books.upkeep, pricing, spent, longest, _MARGIN)

    def _why_plain(self, survivals: Seq[float], pricing: Pricing, spent: float, longest: float) -> Reason:
        if self.costs.needs_plain:
            return Reason.REFRESH
        if not survivals and pricing.seconds[1:2] not in ([], [math.inf]):
            return Reason.NOT_WORTH_IT  # there were pinned nodes only
        possible = [seconds for seconds in pricing.seconds[1 : len(survivals) + 1] if seconds < math.inf]
        if not possible:
            return Reason.UNMEASURED
        if possible[-1] <= longest:
            return Reason.NOT_WORTH_IT
        wanted = best_size(survivals, pricing.seconds, pricing.n_sequences, spent, math.inf, _MARGIN)
        return Reason.LEDGER if wanted else Reason.NOT_WORTH_IT

    def _decide(
        self, reason: Reason, n_nodes: int, n_pending: int, tokens: float, seconds: float, pricing: Pricing
    ) -> None:
        """Keep what was expected of so many nodes, and why."""
        self._rounds[reason] += 1
        n_sequences, n_rows = pricing.n_sequences, n_pending + n_nodes
        self.decision = Decision(reason, n_sequences, n_nodes, n_rows, tokens, seconds, pricing.plain_seconds)

    def _remember_claim(self, offers: Seq[Offer], reason: Reason) -> None:
        """Which first guesses of the only drafter are worth their row, and which are not."""
        if len(offers) > 1 or len(offers[0].proposed) != 1 or offers[0].state.exact:
            return
        survival = offers[0].proposed[0].tree.survival
        if len(survival) and reason is Reason.DRAFTED:
            self._claims.drafted(float(survival[0]))
        elif len(survival) and reason is Reason.NOT_WORTH_IT:
            self._claims.refused(float(survival[0]))

    # -- record -----------------------------------------------------------------------------------------------------

    def least_claim(self, n_sequences: int) -> float:
        return self._claims.least_asked(n_sequences)

    def lets_rest(self, sequence: SequenceId) -> bool:
        """While guesses wait for more of its text, every round is looked at."""
        return not self._books.acceptance.follows(sequence)

    def may_ask(self, n_sequences: int) -> bool:
        """False where the ledger has nothing left for a look: even a refusal takes a share of the round that would keep
        it from ever recovering. And where so many share the pass that a row costs more than a right guess gives.
        """
        may = self._may_pay(n_sequences) and self.calls.may_ask(self._books.t1_seconds)
        if not may:
            self._unasked[self.calls.refusal] += 1
        return may

    def rest(self, states: Seq[SequenceState], report: RoundReport, n_emitted: int, draft_seconds: float) -> None:
        if self._books.rest(states, report, n_emitted, draft_seconds):
            self._settle_rests(states)

    def record(self, offers: Seq[Offer], reports: Seq[RoundReport], draft_seconds: float) -> None:
        self._books.record(self._round, offers, reports, draft_seconds)

    def end(self, sequence: SequenceId) -> None:
        self._settle_rests()
        self._books.end(sequence)

    def charge(self, seconds: float) -> None:
        self._settle_rests()
        self._books.charge(seconds)

    def reprice(self, table: CostTable) -> None:
        """Passes cost what `table` says now; what rounds have taught about each table is kept for its return."""
        self._settle_rests()
        if self._books.reprice(table):
            self._claims, self._least_node = Claims(table, _MARGIN), least_node(table)

    def _settle_rests(self, states: Seq[SequenceState] = ()) -> None:
        rests = self._books.rests
        if rests.n_rounds:
            n_sequences = len(rests.sequences)
            quiet = Reason.NO_MATCH if rests.draft_seconds else Reason.NO_DRAFTER
            unasked, self._unasked = +self._unasked, Counter()
            reason, n_left = next(iter(unasked), quiet), rests.n_rounds
            for counted, n in (*unasked.items(), (quiet, n_left)):  # a pass that broke off was counted and is no round
                if min(n, n_left):
                    self._rounds[counted] += min(n, n_left)
                    n_left -= min(n, n_left)
            plain = self.t1_seconds * n_sequences
            self.decision = Decision(reason, n_sequences, 0, rests.n_rows, float(n_sequences), plain, plain)
        self._books.settle_rests(states)

    # -- explain ----------------------------------------------------------------------------------------------------

    def explain(self, context: int, width_class: tuple[int, ...] = ()) -> Explanation:
        """What holds at so many tokens of context; `width_class` is an exact request's. From any thread, while rounds
        go on: of those that rest, the last few may be missing.
        """
        return explanation(self._books, self.decision, self._rounds.copy(), context, width_class)
