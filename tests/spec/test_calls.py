"""Whom to ask: free drafters always, costly ones where they beat the free ones, and now and then to see."""

from __future__ import annotations

import pytest

from edgespec.spec.acceptance import Acceptance
from edgespec.spec.calls import Calls, Probe
from edgespec.spec.cost import CostTable, DraftCosts
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.ledger import Account, Entry, Ledger
from edgespec.spec.livecosts import LiveCosts
from edgespec.spec.policy import Proposed, Reason
from edgespec.spec.ports import Plan
from edgespec.spec.predict import best_size, goodput
from edgespec.spec.prices import Prices, Pricing
from edgespec.spec.sequence import SequenceState
from edgespec.spec.tree import EMPTY, DraftTree, chain

NEW = 7  # a text of which nothing is known yet
WIDTHS = tuple(range(1, 17))
TABLE = CostTable((0,), WIDTHS, (tuple(1.0 + 0.1 * (width - 1) for width in WIDTHS),))


def state_of(n_output: int) -> SequenceState:
    state = SequenceState.start(NEW, [1], Law(SamplingSettings()), 1000, frozenset())
    state.tokens += [2] * n_output
    return state


class Desk:
    """Calls with all they look at."""

    def __init__(self, seconds: float = 0.1) -> None:
        live = LiveCosts(TABLE)
        self.acceptance = Acceptance()
        self.ledger = Ledger()
        self.account = Account()
        self.calls = Calls(live, self.acceptance, self.ledger, {"model": DraftCosts([(1, seconds), (8, 8 * seconds)])})
        self.pricing: Pricing = Prices(live).pricing(1, 1, 0, ())

    def plan(
        self,
        n_output: int = 50,
        offered: tuple[Proposed, ...] = (),
        n_behind: int = 0,
        state: SequenceState | None = None,
    ) -> Plan:
        self.calls.begin_round()
        state = state or state_of(n_output)
        return self.calls.plan("model", state, Plan(15), self.pricing, offered, n_behind, self.account)

    def size(self, n_output: int = 50, offered: tuple[Proposed, ...] = ()) -> int:
        return self.plan(n_output, offered).max_nodes

    def out_of_patience(self) -> Desk:
        """Some trials that showed nothing."""
        for _ in range(10):
            assert self.size() == 1
            self.calls.settle("model", right=False)
        return self

    def learn(self, name: str, n_right: int, n_rounds: int = 60, n: int = 8) -> None:
        tree = chain(list(range(n)), [0.6 ** (i + 1) for i in range(n)])
        for _ in range(n_rounds):
            _, watch = self.acceptance.calibrate(0, name, 0, tree, 0)
            self.acceptance.score(0, name, watch, 0, [*range(n_right), 99])


def offer(tree: DraftTree) -> Proposed:
    return Proposed("free", Plan(15), tree, 0.0)


def test_trials_are_rare_rarer_after_failures_and_repeated_after_success() -> None:
    probe = Probe()
    waits = []
    for right in (False, False, False, True, False):
        waits.append(next(n for n in range(1, 100) if probe.due(10)))
        probe.settle(right)
    assert waits == [10, 20, 20, 20, 1]


def test_the_size_is_the_best_for_what_it_mostly_gives() -> None:
    desk = Desk()
    desk.learn("model", n_right=4)
    n = desk.size()
    survivals = desk.acceptance.profile("model").expected(15)
    seconds = [s + desk.calls.costs["model"].seconds(i) for i, s in enumerate(desk.pricing.seconds)]
    rates = [goodput(survivals[:k], seconds[k]) for k in range(1, 16)]
    assert n == 1 + rates.index(max(rates)) >= 3
    assert desk.calls.risk_seconds == desk.calls.costs["model"].bound(n)


def test_a_good_free_offer_makes_the_call_needless() -> None:
    desk = Desk()
    desk.learn("model", n_right=4)
    desk.learn("free", n_right=8, n=15)
    long = chain(list(range(8)), [0.6 ** (i + 1) for i in range(8)])
    assert desk.size() > 0
    assert desk.size(offered=(offer(EMPTY),)) > 0
    assert desk.size(offered=(offer(long),)) == 0
    assert desk.calls.refusal is Reason.NOT_WORTH_IT


def test_it_is_called_only_if_it_beats_the_free_one_by_two_percent() -> None:
    """Around the margin: the same expectation, offered for nothing, is never worth a call."""
    desk = Desk(seconds=0.002)
    desk.learn("model", n_right=3)
    desk.learn("free", n_right=3)
    same = chain(list(range(8)), [0.6 ** (i + 1) for i in range(8)])
    free = desk.acceptance.survival(NEW, "free", same).tolist()
    n_free = best_size(free, desk.pricing.seconds)
    assert n_free >= 3
    assert desk.size(offered=(offer(same),)) == 0
    assert desk.size() > 0


@pytest.mark.parametrize(("n_output", "called"), [(0, False), (2, False), (3, True)])
def test_the_first_three_tokens_never_wait(n_output: int, called: bool) -> None:
    desk = Desk()
    assert (desk.size(n_output) > 0) is called
    assert called or desk.calls.refusal is Reason.SHORT_ANSWER


def test_one_that_never_pays_is_tried_one_round_in_so_many_and_only_for_one_token() -> None:
    desk = Desk(seconds=0.1)
    desk.learn("model", n_right=0)
    desk.out_of_patience()
    sizes = []
    for _ in range(100):
        sizes.append(desk.size())
        if desk.calls.probing:
            desk.calls.settle("model", right=False)
    assert [i + 1 for i, n in enumerate(sizes) if n] == [40, 80]
    assert set(sizes) == {0, 1}


def test_the_ledger_has_the_last_word() -> None:
    desk = Desk()
    desk.learn("model", n_right=4)
    desk.ledger.settle(Entry(10.0, 10.0, 1, 1.0))
    assert desk.size() == 0
    assert desk.calls.refusal is Reason.LEDGER
    assert not desk.calls.may_ask(1.0)
    assert not desk.calls.probing


def test_a_drafter_is_free_until_its_calls_prove_otherwise() -> None:
    desk = Desk()
    assert desk.calls.is_free("new", 1.0)
    assert not desk.calls.is_free("model", 1.0)
    desk.calls.observe(Proposed("new", Plan(0), EMPTY, 0.0))
    assert "new" not in desk.calls.costs
    desk.calls.observe(Proposed("new", Plan(4), EMPTY, 0.5))
    assert not desk.calls.is_free("new", 1.0)
    assert desk.calls.may_ask(1.0)


# -- what must be read first ------------------------------------------------------------------------------------------


def reader(read_seconds: float = 0.02, step_seconds: float = 0.1) -> Desk:
    """A model of which it is known that four of five tokens are right."""
    desk = Desk(step_seconds)
    desk.calls.costs["model"] = DraftCosts([(1, step_seconds), (8, 8 * step_seconds)], read_seconds=read_seconds)
    desk.learn("model", n_right=4)
    return desk


def test_a_prompt_is_read_if_the_tokens_to_come_are_expected_to_pay_for_it() -> None:
    desk = reader()
    plan = desk.plan(n_behind=300)
    assert plan.max_nodes == desk.plan(n_behind=0).max_nodes > 0
    desk.plan(n_behind=300)
    lent = desk.calls.investments.lent[NEW]
    assert lent == pytest.approx(300 * 0.02 * desk.calls.costs["model"].excess.factor)
    assert desk.calls.risk_seconds > lent
    short = state_of(50)
    short.max_tokens = 60
    assert reader().plan(n_behind=300, state=short).max_nodes <= 1
    assert desk.plan(n_output=2, n_behind=300).max_nodes == 0


def test_reading_that_is_no_more_than_a_step_is_a_part_of_the_price() -> None:
    desk = reader()
    assert desk.plan(n_behind=4).max_nodes > 0
    assert desk.calls.investments.lent == {}
    assert desk.calls.risk_seconds >= desk.calls.costs["model"].bound(1, 4)
    desk = reader(read_seconds=0.5, step_seconds=2.0)  # the third row saves less than it costs to read for
    assert desk.plan(n_behind=3).max_nodes <= 1


def test_more_than_may_be_lent_is_not_read() -> None:
    assert reader().plan(n_behind=1200).max_nodes > 0
    assert reader().plan(n_behind=1300).max_nodes <= 1
    desk = reader()
    desk.ledger.settle(Entry(20.0, 19.0, 1, 1.0, 1.1, 20.0, 19.0))
    assert desk.plan(n_behind=900).max_nodes <= 1
    desk = reader()
    desk.account.settle(20.0, 1, 1.0, drafted=True, invested_seconds=19.0)
    assert desk.plan(n_behind=900).max_nodes <= 1


def test_another_answer_is_not_read_for_until_the_last_reading_was_given_back() -> None:
    desk = reader()
    assert desk.plan(n_behind=300).max_nodes > 0
    other = SequenceState.start(NEW + 1, [1], Law(SamplingSettings()), 1000, frozenset())
    other.tokens += [2] * 50
    assert desk.plan(n_behind=300, state=other).max_nodes == 0
    assert desk.plan(n_behind=300).max_nodes > 0
    desk.calls.investments.settle(["model"], 100.0)
    assert desk.plan(n_behind=300, state=other).max_nodes > 0


def test_one_that_was_read_in_is_tried_a_while_before_it_is_let_go() -> None:
    desk = reader()
    assert desk.plan(n_behind=300).max_nodes > 0
    desk.learn("model", n_right=0)
    sizes = []
    for _ in range(40):
        sizes.append(desk.plan(n_behind=1).max_nodes)
        if desk.calls.probing:
            desk.calls.settle("model", right=False)
    assert sizes[:12] == [1] * 12
    assert sum(sizes[12:]) <= 1
    assert desk.plan(n_behind=400).max_nodes == 0


def test_trials_of_one_that_must_read_are_rarer() -> None:
    waits = []
    for n_behind in (0, 5):
        desk = reader()
        desk.learn("model", n_right=0)
        desk.out_of_patience()
        waits.append(next(n for n in range(1, 1000) if desk.plan(n_behind=n_behind).max_nodes))
    assert waits[1] == 2 * waits[0]  # five tokens cost what a step does


# -- the rest of the plan ---------------------------------------------------------------------------------------------


def test_the_plan_says_when_a_call_is_late_and_where_it_is_not_worth_going_on() -> None:
    desk = reader()
    costs = desk.calls.costs["model"]
    plan = desk.plan(n_behind=2)
    assert plan.deadline_seconds == pytest.approx(costs.deadline(plan.max_nodes, 2))
    assert plan.deadline_seconds > 2.0 * (costs.seconds(plan.max_nodes) + costs.reading(2))
    assert 0.0 < plan.min_survival < 0.6
    dear = reader(step_seconds=0.3).plan()
    trust = desk.acceptance.profile("model").trust
    assert dear.min_survival * max(1.0, trust) ** dear.max_nodes > plan.min_survival * max(1.0, trust) ** plan.max_nodes


def test_a_trial_is_not_cut_short() -> None:
    desk = Desk()
    desk.learn("model", n_right=0)
    plan = desk.plan()
    assert (plan.max_nodes, plan.min_survival) == (1, 0.0)
    assert desk.calls.probing == {"model"}


def test_one_that_works_ahead_is_sized_by_the_pass_alone_and_never_taken_for_free() -> None:
    """Its calls come to take nothing; what is asked for then is what the pass is worth, not all that it may hold."""
    desk = Desk()
    desk.learn("model", n_right=4)
    before = desk.size()
    for _ in range(60):
        desk.calls.observe(Proposed("model", Plan(4), EMPTY, 1e-6))
    assert not desk.calls.is_free("model", 1.0)
    survivals = desk.acceptance.profile("model").expected(15)
    assert desk.size() == best_size(survivals, desk.pricing.seconds) >= before
    assert desk.size() < 15


def test_a_slow_call_now_and_then_is_within_what_the_ledger_was_asked_for() -> None:
    desk = Desk()
    desk.learn("model", n_right=4)
    for i in range(100):
        desk.calls.observe(Proposed("model", Plan(4), EMPTY, 0.4 if i % 5 == 4 else 1e-6))
    plan = desk.plan()
    assert desk.calls.risk_seconds >= 0.95 * 0.1 * plan.max_nodes
    assert plan.deadline_seconds > 0.1 * plan.max_nodes


def test_a_few_tokens_to_read_are_no_investment_for_one_whose_calls_take_nothing() -> None:
    desk = reader()
    for _ in range(60):
        desk.calls.observe(Proposed("model", Plan(4), EMPTY, 1e-6))
    assert desk.plan(n_behind=3).max_nodes > 0
    assert desk.calls.investments.lent == {}
