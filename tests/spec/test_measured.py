"""What the measured policy decides, and the reason it gives, for offers and times handed in by hand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.events import Finish, RoundReport
from edgespec.spec.cost import CostTable, DraftCosts
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.ledger import Entry, replay
from edgespec.spec.measured import MeasuredPolicy
from edgespec.spec.policy import Offer, Proposed, Reason, Selection
from edgespec.spec.ports import Capabilities, Plan
from edgespec.spec.sequence import SequenceState
from edgespec.spec.tree import EMPTY, DraftMode, DraftTree, chain, tree_of

NEW = 7  # a text of which nothing is known yet
ROOMY = Capabilities(n_ctx=10_000, n_vocab=1000, max_rows=32, max_chunk=64, max_leaves=4, can_rollback=True)
AMX = CostTable((0,), (1, 2, 3, 4, 6, 8, 16), ((0.0093, 0.0131, 0.0144, 0.0157, 0.0182, 0.0208, 0.0292),))
STEEP = CostTable((0,), (1, 2, 4, 8, 16), ((0.010, 0.019, 0.027, 0.044, 0.079),))


def state_of(
    widths: tuple[int, ...] = (), max_tokens: int = 10_000, n_output: int = 10, number: int = 0
) -> SequenceState:
    state = SequenceState.start(number, [1], Law(SamplingSettings()), max_tokens, frozenset(), widths)
    state.tokens += [2] * n_output
    return state


@dataclass
class Table:
    """One sequence at the policy's table: proposals go in, the pass takes what the cost table says.

    The true token at each position is the position.
    """

    policy: MeasuredPolicy
    state: SequenceState = field(default_factory=state_of)
    capabilities: Capabilities = ROOMY
    last: Selection | None = None

    def round(
        self,
        *claims: float,
        n_right: int = 0,
        call_seconds: float = 0.0,
        name: str = "d",
        table: CostTable | None = None,
    ) -> int:
        """A chain with these claimed steps, of which `n_right` tokens come true; returns the nodes verified."""
        plan = self.policy.plan(self.state, name, self.capabilities, 1)
        tree = self.draft(claims[: plan.max_nodes], n_right)
        called = call_seconds if plan.max_nodes else 0.0
        return self.finish(Offer(self.state, (Proposed(name, plan, tree, called),)), n_right, table)

    def draft(self, claims: Sequence[float], n_right: int) -> DraftTree:
        position = len(self.state.tokens)
        tokens = [position + i + (i >= n_right) for i in range(len(claims))]
        return chain(tokens, list(itertools.accumulate(claims, lambda a, b: a * b)))

    def finish(self, offer: Offer, n_right: int, table: CostTable | None = None) -> int:
        self.last = self.policy.select([offer], self.capabilities)[0]
        n_nodes = len(self.last.tree)
        position = len(self.state.tokens)
        emitted = tuple(range(position, position + min(n_right, n_nodes) + 1))
        rows = len(self.state.pending) + n_nodes
        widths = self.state.width_class
        width = min((w for w in widths if w >= rows), default=rows)
        seconds = (table or self.policy.costs.table).steps(0)[width]
        called = sum(one.seconds for one in offer.proposed)
        self.state.tokens += emitted
        report = RoundReport(width, 0, n_nodes, 0, emitted, (), called, seconds, seconds + called)
        self.policy.record([offer], [report], called)
        return n_nodes

    @property
    def reason(self) -> Reason:
        return self.policy.decision.reason

    def taught(self, *claims: float, n_right: int, n_rounds: int = 40) -> Table:
        for _ in range(n_rounds):
            self.round(*claims, n_right=n_right)
        return self


# -- how much ---------------------------------------------------------------------------------------------------------


def test_what_mostly_comes_true_is_drafted_to_the_full_and_what_does_not_is_left() -> None:
    good = Table(MeasuredPolicy(AMX)).taught(*[0.9] * 15, n_right=15)
    assert good.round(*[0.9] * 15, n_right=15) == 15
    assert good.reason is Reason.DRAFTED
    bad = Table(MeasuredPolicy(AMX)).taught(*[0.9] * 15, n_right=0)
    assert bad.round(*[0.9] * 15) == 0
    assert bad.reason is Reason.NOT_WORTH_IT


def test_a_steep_curve_asks_for_more_than_a_flat_one() -> None:
    """Two of three guesses right: worth it where a second row costs 40 %, not where it costs 90 %."""
    drafted = {}
    for name, table in (("AMX", AMX), ("steep", STEEP)):
        player = Table(MeasuredPolicy(table))
        for i in range(60):
            player.round(0.6, n_right=1 if i % 3 else 0)
        drafted[name] = sum(player.round(0.6, n_right=1 if i % 3 else 0) for i in range(30))
    assert drafted["AMX"] >= 29  # one may be a plain round that looks after T1
    assert drafted["steep"] == 0


def test_the_decision_says_what_was_expected() -> None:
    player = Table(MeasuredPolicy(AMX)).taught(0.9, 0.9, 0.9, n_right=3)
    n_nodes = player.round(0.9, 0.9, 0.9, n_right=3)
    decision = player.policy.decision
    assert (decision.n_nodes, decision.n_rows, n_nodes) == (3, 4, 3)
    assert decision.expected_tokens > 3.5
    assert decision.expected_seconds == pytest.approx(0.0157, rel=0.01)
    assert decision.goodput > decision.plain_goodput == pytest.approx(1 / 0.0093, rel=0.01)


def test_measured_widths_are_drafted_at_and_now_and_then_one_between_them_is_tried() -> None:
    partial = replace(STEEP, seconds=((0.010, 0.0101, 0.0102, 0.0103, 0.0104),), is_partial=True)
    player = Table(MeasuredPolicy(partial))
    sizes = [player.round(*[0.9] * n, n_right=n) for n in (2, 4, 5, 6, 9, 14) for _ in range(20)]
    n_tried = sum(1 for n in sizes if n not in (0, 1, 3, 7))
    assert {1, 3, 7} <= set(sizes)
    assert 4 <= n_tried <= len(sizes) / 16
    assert player.round(*[0.9] * 15, n_right=15) == 15


def test_in_exact_mode_a_padded_pass_is_filled() -> None:
    """Widths 2 to 16 only: a second row is free, and a fifth one costs as much as eight."""
    state = state_of(widths=(2, 4, 8, 16))
    player = Table(MeasuredPolicy(STEEP), state)
    assert player.round(0.3) == 1
    player.taught(*[0.9] * 7, n_right=7)
    assert player.round(*[0.9] * 7, n_right=7) == 7
    assert player.policy.plan(state, "d", replace(ROOMY, max_rows=15), 1) == Plan(7, 1)


def test_the_likeliest_nodes_of_a_tree_are_taken() -> None:
    policy = MeasuredPolicy(AMX, max_leaves=3)
    state = state_of()
    tree = tree_of([10, 20, 11, 21], [-1, -1, 0, 1], [0.55, 0.85, 0.5, 0.75])
    plan = policy.plan(state, "d", ROOMY, 1)
    assert plan.max_leaves == 3
    selection = policy.select([Offer(state, (Proposed("d", plan, tree, 0.0),))], ROOMY)[0]
    kept = selection.tree.tokens.tolist()
    assert kept[:2] == [20, 21][: len(kept)]
    assert [kept[i] if i >= 0 else -1 for i in selection.nodes[0].tolist()] == [
        token if token in kept else -1 for token in (10, 20, 11, 21)
    ]


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.sampled_from([0.95, 0.9, 0.7, 0.4]), max_size=6), min_size=2, max_size=4),
    st.sampled_from([6, 9, 16]),
)
def test_a_batch_shares_its_rows_by_one_global_sort(claims: list[list[float]], max_rows: int) -> None:
    """Against all ways to cut the chains: none has a higher expected goodput, by more than the margin over plain."""
    widths = tuple(range(1, 17))
    policy = MeasuredPolicy(CostTable((0,), widths, (tuple(1.0 + 0.12 * (w - 1) for w in widths),)))
    capabilities = replace(ROOMY, max_rows=max_rows)
    offers = []
    for number, steps in enumerate(claims):
        state = state_of(number=number)
        plan = policy.plan(state, "d", capabilities, len(claims))
        tree = chain(list(range(len(steps))), list(itertools.accumulate(steps, lambda a, b: a * b)))
        offers.append(Offer(state, (Proposed("d", plan, tree, 0.0),)))
    chosen = policy.select(offers, capabilities)
    survivals = [policy.acceptance.survival(NEW, "d", offer.proposed[0].tree).tolist() for offer in offers]
    headroom = 3.0 * policy.costs.seconds(len(claims), 0) / len(claims)

    def rate(cut: Sequence[int]) -> float:
        rows = len(claims) + sum(cut)
        seconds = policy.costs.seconds(rows, 0) if rows <= max_rows else math.inf
        risk = seconds * policy.costs.excess.factor - policy.costs.seconds(len(claims), 0)
        tokens = len(claims) + sum(sum(s[:n]) for s, n in zip(survivals, cut, strict=True))
        return tokens / seconds if not sum(cut) or risk <= headroom else 0.0

    sizes = [len(one.tree) for one in chosen]
    best = max(rate(cut) for cut in itertools.product(*(range(len(steps) + 1) for steps in claims)))
    assert rate(sizes) > 0.0
    assert rate(sizes) * 1.0501 >= best


def test_a_sampled_tree_is_taken_whole_or_not_at_all() -> None:
    policy = MeasuredPolicy(AMX)
    state = state_of()
    for claims, wanted in (([0.9, 0.2, 0.2], 3), ([0.9] * 4, 0)):
        survival = list(itertools.accumulate(claims, lambda a, b: a * b))
        tree = chain(list(range(len(claims))), survival, mode=DraftMode.SAMPLED)
        plan = policy.plan(state, "d", ROOMY, 1)
        assert len(policy.select([Offer(state, (Proposed("d", plan, tree, 0.0),))], ROOMY)[0].tree) == wanted


# -- why not ----------------------------------------------------------------------------------------------------------


def test_each_reason_for_plain_decoding_has_its_code() -> None:
    player = Table(MeasuredPolicy(AMX))
    policy = player.policy
    policy.select([Offer(player.state, ())], ROOMY)
    assert policy.decision.reason is Reason.NO_DRAFTER
    player.round()
    assert player.reason is Reason.NO_MATCH
    frozen = Table(policy, capabilities=replace(ROOMY, can_rollback=False))
    frozen.round(0.9)
    assert frozen.reason is Reason.NO_ROLLBACK
    last = Table(policy, state_of(max_tokens=11))
    last.round(0.9)
    assert last.reason is Reason.LIMIT
    full = Table(policy, capabilities=replace(ROOMY, n_ctx=11))
    full.round(0.9)
    assert full.reason is Reason.LIMIT
    bare = Table(MeasuredPolicy(CostTable((0,), (1,), ((0.01,),))))
    bare.round(0.9)
    assert bare.reason is Reason.UNMEASURED
    gap = Table(MeasuredPolicy(CostTable((0,), (1, 8), ((0.01, 0.011),))))
    gap.round(0.9, 0.9)
    assert gap.reason is Reason.UNMEASURED
    short = Table(MeasuredPolicy(AMX, {"d": DraftCosts([(1, 0.002)])}), state_of(n_output=2))
    short.round(0.9)
    assert short.reason is Reason.SHORT_ANSWER


def test_when_too_much_was_lost_the_ledger_says_no_and_later_yes() -> None:
    player = Table(MeasuredPolicy(AMX)).taught(*[0.9] * 3, n_right=3, n_rounds=20)
    player.policy.charge(100.0)
    assert player.round(*[0.9] * 3, n_right=3) == 0
    assert player.reason is Reason.LEDGER
    assert player.policy.plan(player.state, "d", ROOMY, 1) == Plan(0) or player.reason is Reason.LEDGER
    assert player.policy.ledger.headroom(0.0093) < 0.0


def test_one_round_in_64_is_plain_to_see_what_plain_decoding_costs() -> None:
    player = Table(MeasuredPolicy(AMX)).taught(*[0.9] * 3, n_right=3, n_rounds=20)
    reasons = []
    for _ in range(192):
        player.round(*[0.9] * 3, n_right=3)
        reasons.append(player.reason)
    assert reasons.count(Reason.REFRESH) == 3
    assert reasons.count(Reason.DRAFTED) == 189


# -- drafters that cost time ------------------------------------------------------------------------------------------


def costly(seconds: float = 0.001, table: CostTable = AMX) -> Table:
    return Table(MeasuredPolicy(table, {"model": DraftCosts([(1, seconds), (8, 8 * seconds)])}))


def play(player: Table, n_rounds: int, n_right: int, seconds: float = 0.001) -> int:
    """Rounds of a model whose first `n_right` tokens are right; returns how often it was called."""
    n_calls = 0
    for _ in range(n_rounds):
        plan = player.policy.plan(player.state, "model", ROOMY, 1)
        n_calls += plan.max_nodes > 0
        tree = player.draft([0.6] * plan.max_nodes, n_right)
        player.finish(Offer(player.state, (Proposed("model", plan, tree, plan.max_nodes * seconds),)), n_right)
    return n_calls


def test_a_costly_drafter_that_is_right_is_always_called() -> None:
    player = costly()
    play(player, 30, n_right=20)
    assert play(player, 63, n_right=20) == 63
    assert player.policy.decision.n_nodes >= 7


def test_one_that_is_wrong_is_called_seldom_and_found_again_when_it_is_right() -> None:
    player = costly()
    play(player, 60, n_right=0)
    rare = play(player, 200, n_right=0)
    assert 3 <= rare <= 12
    assert play(player, 60, n_right=20) > 20


def test_calls_that_cost_more_than_they_can_give_are_rare() -> None:
    player = costly(seconds=0.02)
    play(player, 30, n_right=20, seconds=0.02)
    assert play(player, 400, n_right=20, seconds=0.02) <= 2


def test_short_answers_never_wait_for_it() -> None:
    for n_output in (0, 1, 2):
        policy = costly().policy
        assert policy.plan(state_of(n_output=n_output), "model", ROOMY, 1) == Plan(0)
    assert costly().policy.plan(state_of(n_output=3), "model", ROOMY, 1).max_nodes > 0


def test_it_is_not_called_when_a_free_one_offers_nearly_as_much() -> None:
    player = costly()
    play(player, 20, n_right=20)
    policy, state = player.policy, player.state
    player.taught(*[0.95] * 15, n_right=15, n_rounds=20)
    assert policy.plan(state, "model", ROOMY, 1).max_nodes > 0
    plan = policy.plan(state, "d", ROOMY, 1)
    long = Proposed("d", plan, chain(list(range(15)), [0.95 ** (i + 1) for i in range(15)]), 0.0)
    none = Proposed("d", plan, EMPTY, 0.0)
    assert policy.plan(state, "model", ROOMY, 1, [long]) == Plan(0)
    assert policy.plan(state, "model", ROOMY, 1, [none]).max_nodes > 0


def test_a_free_drafter_that_turns_out_to_cost_time_is_treated_so() -> None:
    player = Table(MeasuredPolicy(AMX))
    for _ in range(30):
        player.round(*[0.6] * 4, n_right=0, call_seconds=0.004)
    assert not {view.name: view for view in player.policy.explain(0).drafters}["d"].is_free
    before = player.policy.ledger.lost_seconds
    for _ in range(50):
        player.round(*[0.6] * 4, n_right=0, call_seconds=0.004)
    assert player.policy.ledger.lost_seconds - before < 0.02 * 50 * 0.0093


# -- the account ------------------------------------------------------------------------------------------------------


def test_everything_goes_to_the_journal_in_order() -> None:
    journal: list[Entry] = []
    player = Table(MeasuredPolicy(AMX, journal=journal.append))
    player.taught(*[0.9] * 3, n_right=3, n_rounds=10)
    player.policy.charge(0.5)
    assert len(journal) == 11
    assert sum(entry.seconds for entry in journal) == pytest.approx(player.policy.ledger.total_seconds)
    drafted = [entry for entry in journal if entry.bound_seconds]
    assert drafted
    assert all(entry.bound_seconds >= entry.seconds and entry.risk_seconds > 0.0 for entry in drafted)
    assert journal[-1] == Entry(0.5, 0.5, 0, journal[-2].t1_seconds)


def test_a_batch_is_settled_once_at_the_price_of_a_plain_batch() -> None:
    journal: list[Entry] = []
    policy = MeasuredPolicy(AMX, journal=journal.append)
    states = [state_of(number=number) for number in range(3)]
    report = RoundReport(3, 0, 0, 0, (7,), ("",), 0.0, 0.0144, 0.0144)
    for tree in (EMPTY, chain([5], [0.01])):
        offers = [Offer(state, (Proposed("d", policy.plan(state, "d", ROOMY, 3), tree, 0.0),)) for state in states]
        assert all(len(one.tree) == 0 for one in policy.select(offers, ROOMY))
        policy.record(offers, [report, report, replace(report, tokens=())], 0.0)
        assert replace(journal[-1], t1_seconds=0.0) == Entry(0.0144, 0.0, 2, 0.0)
    assert len(journal) == 2
    assert journal[1].t1_seconds == pytest.approx(0.0144 / 3)


def test_quiet_rounds_are_counted_all_but_looked_at_one_in_four() -> None:
    journal: list[Entry] = []
    player = Table(MeasuredPolicy(AMX, journal=journal.append))
    for _ in range(40):
        player.round()
    assert len(journal) == 40
    assert player.policy.explain(0).rounds == {Reason.NO_MATCH: 40}
    assert player.policy.ledger.total_seconds == pytest.approx(40 * 0.0093)


def test_a_slow_machine_is_noticed_in_quiet_rounds_too() -> None:
    player = Table(MeasuredPolicy(AMX))
    slow = CostTable((0,), AMX.widths, (tuple(3.0 * s for s in AMX.seconds[0]),))
    for _ in range(16):
        player.round()
    assert player.policy.costs.load == pytest.approx(1.0)
    for _ in range(16):
        player.round(table=slow)
    assert player.policy.costs.load == pytest.approx(3.0)


# -- rounds that rest -------------------------------------------------------------------------------------------------


def rest(player: Table, n_rounds: int, table: CostTable = AMX, following: float = 1e-5) -> None:
    for _ in range(n_rounds):
        assert player.policy.lets_rest(player.state.id)
        seconds = table.steps(0)[1]
        player.state.tokens.append(len(player.state.tokens))
        report = RoundReport(1, 0, 0, 0, (player.state.tokens[-1],), ("",), 0.0, seconds, seconds + following)
        player.policy.rest([player.state], report, 1, following)


def test_rounds_that_rest_are_booked_like_quiet_ones_that_were_asked() -> None:
    """Whoever asks next finds the books as if every round had been asked, but in fewer entries."""
    journal: list[Entry] = []
    asked, rested = Table(MeasuredPolicy(AMX)), Table(MeasuredPolicy(AMX, journal=journal.append))
    for player in (asked, rested):
        player.taught(0.9, 0.9, n_right=1, n_rounds=9)
        assert player.policy.lets_rest(player.state.id)
    n_before = len(journal)
    for _ in range(20):
        asked.round(call_seconds=1e-5)
    rest(rested, 20)
    for player in (asked, rested):
        player.round()
    assert [entry.n_rounds for entry in journal[n_before:]] == [8, 8, 4, 1]
    assert asked.policy.explain(0).rounds == rested.policy.explain(0).rounds
    for name in ("total_seconds", "plain_seconds", "lost_seconds"):
        ledgers = asked.policy.ledger, rested.policy.ledger
        assert getattr(ledgers[0], name) == pytest.approx(getattr(ledgers[1], name)), name
    assert asked.policy.t1_seconds == pytest.approx(rested.policy.t1_seconds, rel=1e-3)
    assert replay(journal).n_rounds == 30


def test_who_claims_less_than_any_draft_must_come_true_with_need_not_be_asked() -> None:
    needed = min((cost / 0.0093 - 1.0) / n for n, cost in ((1, 0.0131), (3, 0.0157), (7, 0.0208), (15, 0.0292)))
    assert MeasuredPolicy(AMX).least_claim(1) == pytest.approx(0.9 * needed, rel=0.01)


def test_a_first_guess_that_was_not_worth_its_row_need_not_be_told_again_until_one_like_it_is_drafted() -> None:
    player = Table(MeasuredPolicy(AMX))
    least = player.policy.least_claim(1)
    player.taught(0.5, n_right=0, n_rounds=40)
    assert player.reason is Reason.NOT_WORTH_IT
    assert player.policy.least_claim(1) > 0.5 > least
    player.taught(*[0.95] * 4, n_right=4, n_rounds=10)
    assert player.policy.least_claim(1) > 0.5, "surer ones are"
    player.taught(*[0.5] * 4, n_right=4, n_rounds=200)
    assert player.reason.value == "drafted"
    assert player.policy.least_claim(1) < 0.5


def test_where_a_row_costs_what_a_right_guess_gives_nobody_is_asked_and_it_is_said_why() -> None:
    policy = MeasuredPolicy(CostTable((0,), STEEP.widths, ((0.010, 0.019, 0.027, 0.044, 0.088),)))
    assert [policy.may_ask(n) for n in (1, 2, 4, 8)] == [True, True, True, False]
    assert not policy.may_ask(16), "there is no wider pass"
    states = [state_of(number=number) for number in range(8)]
    report = RoundReport(8, 0, 0, 0, (5,), ("",), 0.0, 0.044, 0.044)
    for _ in range(3):
        assert not policy.may_ask(8)
        policy.rest(states, report, 8, 1e-5)
    assert not policy.explain(0).rounds, "rounds that rest are booked together"
    policy.end(0)
    assert policy.explain(0).rounds == {Reason.NOT_WORTH_IT: 3}
    assert policy.plan(states[0], "d", ROOMY, 8).max_nodes == 0, "also where one waits for more of its text"
    assert policy.plan(states[0], "d", ROOMY, 4).max_nodes > 0


def test_a_slow_machine_is_noticed_while_rounds_rest() -> None:
    player = Table(MeasuredPolicy(AMX))
    slow = CostTable((0,), AMX.widths, (tuple(3.0 * s for s in AMX.seconds[0]),))
    rest(player, 16)
    assert player.policy.costs.load == pytest.approx(1.0)
    rest(player, 16, slow)
    assert player.policy.costs.load == pytest.approx(3.0)
    assert player.policy.t1_seconds == pytest.approx(3.0 * AMX.steps(0)[1], rel=0.01)


def test_one_hiccup_among_rounds_that_rest_moves_no_price() -> None:
    player = Table(MeasuredPolicy(AMX))
    stuck = CostTable((0,), AMX.widths, (tuple(30.0 * s for s in AMX.seconds[0]),))
    rest(player, 3)
    rest(player, 1, stuck)
    rest(player, 4)
    assert player.policy.costs.load == pytest.approx(1.0)


def test_nothing_rests_while_a_guess_waits_for_more_of_the_text() -> None:
    player = Table(MeasuredPolicy(AMX)).taught(*[0.9] * 3, n_right=3, n_rounds=10)
    assert player.policy.lets_rest(player.state.id)
    claims = [0.9] * 12
    player.capabilities = replace(ROOMY, max_rows=4)  # so that only three of them are verified
    plan = Plan(12)
    player.finish(Offer(player.state, (Proposed("d", plan, player.draft(claims, 12), 0.0),)), n_right=12)
    assert not player.policy.lets_rest(player.state.id)
    assert player.policy.lets_rest(player.state.id + 1), "and those it does not concern may"
    player.policy.end(player.state.id)  # the answer was cancelled, say: nothing more of its text will come
    assert player.policy.lets_rest(player.state.id)


def test_the_next_answer_under_the_same_number_has_an_account_and_a_record_of_its_own() -> None:
    """However the one before it ended, the turns of a conversation do not pay for each other."""
    policy = MeasuredPolicy(AMX)
    Table(policy).taught(*[0.9] * 4, n_right=0, n_rounds=30)
    books = policy._books
    poor, disappointed = books.accounts.of(0).headroom(AMX.steps(0)[1]), policy.acceptance.tally(0, "d").factor
    policy.end(0)
    policy.end(0)
    assert books.accounts.of(0).headroom(AMX.steps(0)[1]) > poor
    assert policy.acceptance.tally(0, "d").factor == 1.0 > disappointed


def test_what_rested_before_the_end_of_an_answer_is_booked_with_it() -> None:
    journal: list[Entry] = []
    player = Table(MeasuredPolicy(AMX, journal=journal.append))
    rest(player, 3)
    player.policy.end(player.state.id)
    assert [entry.n_rounds for entry in journal] == [3]
    assert not player.policy._books.accounts._accounts


def test_an_answer_that_ends_at_rest_leaves_no_account() -> None:
    player = Table(MeasuredPolicy(AMX)).taught(0.9, n_right=0, n_rounds=3)
    before = player.policy.ledger.total_seconds
    rest(player, 1)
    assert player.policy.ledger.total_seconds == before
    player.state.finish = Finish.STOP
    rest(player, 1)
    assert player.policy.ledger.total_seconds > before
    assert player.policy.decision.reason is Reason.NO_MATCH


def test_without_drafters_the_reason_is_that() -> None:
    player = Table(MeasuredPolicy(AMX))
    rest(player, 8, following=0.0)
    assert player.policy.decision.reason is Reason.NO_DRAFTER
    player.policy.charge(0.25)
    rest(player, 3, following=0.0)
    player.policy.reprice(CostTable((0,), (1, 2), ((0.02, 0.03),)))
    assert player.policy.explain(0).rounds == {Reason.NO_DRAFTER: 11}


def test_rounds_cost_what_the_live_table_says_they_do() -> None:
    """A machine twice as slow as its table, also while walking and committing a draft."""
    policy = MeasuredPolicy(AMX)
    state = state_of()
    for i in range(200):
        plan = policy.plan(state, "d", ROOMY, 1)
        position = len(state.tokens)
        draft = list(range(position, position + 3)) if i > 10 else []
        offer = Offer(state, (Proposed("d", plan, chain(draft, [0.9, 0.8, 0.7][: len(draft)]), 0.0),))
        n = len(policy.select([offer], ROOMY)[0].tree)
        tokens = tuple(range(position, position + n + 1))
        state.tokens += tokens
        passed = 2.0 * AMX.steps(0)[1 + n]
        rest = 0.0002 + 0.0003 * n
        report = RoundReport(1 + n, 0, n, n, tokens, (), 0.0, passed, passed + rest)
        policy.record([offer], [report], 0.0)
    assert policy.costs.seconds(1, 0) == pytest.approx(2 * 0.0093 + 0.0002, rel=0.01)
    assert policy.costs.seconds(4, 0) == pytest.approx(2 * 0.0157 + 0.0011, rel=0.02)


def test_nothing_is_planned_past_any_limit() -> None:
    policy = MeasuredPolicy(AMX)
    state = state_of()
    assert policy.plan(state, "d", ROOMY, 1).max_nodes == 15
    assert policy.plan(state, "d", replace(ROOMY, max_rows=6), 1).max_nodes == 5
    assert policy.plan(state, "d", replace(ROOMY, max_rows=6), 3).max_nodes == 3
    assert policy.plan(state, "d", replace(ROOMY, n_ctx=13), 1).max_nodes == 2
    assert policy.plan(state_of(max_tokens=14), "d", ROOMY, 1).max_nodes == 3
    state.pending = np.array([1, 2, 3], np.int32)
    assert policy.plan(state, "d", ROOMY, 1).max_nodes == 13


def test_another_table_prices_the_next_round_and_the_first_one_comes_back_as_it_was_corrected() -> None:
    table = Table(MeasuredPolicy(AMX)).taught(0.95, 0.95, 0.95, n_right=3)
    drafting = table.round(0.95, 0.95, 0.95, n_right=3)
    corrected = table.policy.costs

    table.policy.reprice(STEEP)
    assert table.policy.costs is not corrected
    assert table.policy.costs.seconds(16, 0) == pytest.approx(0.079)
    n_steep = table.round(0.3, 0.3, 0.3, n_right=0)

    table.policy.reprice(AMX)
    assert table.policy.costs is corrected
    assert (drafting, n_steep) == (3, 0)
    assert table.policy.calls.is_free("d", 0.0093)


def test_what_was_learned_of_a_drafter_and_the_ledger_stay_when_prices_change() -> None:
    table = Table(MeasuredPolicy(AMX)).taught(0.95, 0.95, n_right=0)
    n_steps, lost = table.policy.acceptance.profile("d").n_steps, table.policy.ledger.lost_seconds
    table.policy.reprice(STEEP)
    assert table.policy.acceptance.profile("d").n_steps == n_steps > 0
    assert table.policy.ledger.lost_seconds == lost


# -- a text to be read first ------------------------------------------------------------------------------------------


def test_what_is_lent_for_reading_goes_through_the_journal_and_the_answers_account() -> None:
    journal: list[Entry] = []
    t1 = AMX.seconds[0][0]
    costs = {"model": DraftCosts([(1, 0.0005)], read_seconds=0.01 * t1)}
    player = Table(MeasuredPolicy(AMX, costs, journal=journal.append))
    policy, state = player.policy, player.state
    plan = policy.plan(state, "model", ROOMY, 1, (), 800)
    assert plan.max_nodes > 0
    tree = player.draft([0.6] * plan.max_nodes, 15)
    player.finish(Offer(state, (Proposed("model", plan, tree, 8.0 * t1, 800),)), 15)
    assert policy.decision.n_nodes == plan.max_nodes
    assert journal[0].invested_seconds == pytest.approx(8.0 * t1)
    assert policy.ledger.lent_seconds == pytest.approx(8.0 * t1 - plan.max_nodes * t1, abs=2 * t1)
    n_calls = play(player, 30, n_right=15)
    assert n_calls == 30
    assert policy.ledger.lent_seconds == 0.0
    assert policy.calls.investments.debt("model").owed_seconds < 0.0
    assert replay(journal).kept


def test_reading_for_a_draft_that_nobody_verifies_is_lent_and_charged_too() -> None:
    """The prompt is read, and then the drafter has nothing to say."""
    journal: list[Entry] = []
    t1 = AMX.seconds[0][0]
    costs = {"model": DraftCosts([(1, 0.0005)], read_seconds=0.01 * t1)}
    player = Table(MeasuredPolicy(AMX, costs, journal=journal.append))
    policy, state = player.policy, player.state
    plan = policy.plan(state, "model", ROOMY, 1, (), 800)
    player.finish(Offer(state, (Proposed("model", plan, EMPTY, 8.0 * t1, 800),)), 0)
    assert journal[0].bound_seconds == 0.0
    assert journal[0].invested_seconds >= 8.0 * t1
    assert policy.ledger.lost_seconds == pytest.approx(8.0 * t1)
    assert 7.5 * t1 < policy.ledger.lent_seconds <= 8.0 * t1
    assert replay(journal).kept
    assert policy.plan(state_of(number=1), "model", ROOMY, 1, (), 800) == Plan(0)


def test_an_answer_that_is_over_leaves_a_debt_but_no_account() -> None:
    t1 = AMX.seconds[0][0]
    policy = MeasuredPolicy(AMX, {"model": DraftCosts([(1, 0.0005)], read_seconds=0.01 * t1)})
    state = state_of()
    player = Table(policy, state)
    plan = policy.plan(state, "model", ROOMY, 1, (), 800)
    state.finish = Finish.STOP
    player.finish(Offer(state, (Proposed("model", plan, EMPTY, 8.0 * t1, 800),)), 0)
    assert policy.calls.investments.debt("model").owed_seconds > 0.0
    assert policy.plan(state_of(), "model", ROOMY, 1, (), 800) == Plan(0)  # the same number, another answer
