"""Whom to ask: free drafters always, costly ones where they beat the free ones, and now and then to see."""

from __future__ import annotations

import pytest

from edgespec.spec.acceptance import Acceptance
from edgespec.spec.calls import Calls, Probe
from edgespec.spec.cost import CostTable, DraftCosts
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.ledger import Entry, Ledger
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
        self.calls = Calls(live, self.acceptance, self.ledger, {"model": DraftCosts([(1, seconds), (8, 8 * seconds)])})
        self.pricing: Pricing = Prices(live).pricing(1, 1, 0, ())

    def size(self, n_output: int = 50, offered: tuple[Proposed, ...] = ()) -> int:
        self.calls.begin_round()
        return self.calls.size("model", state_of(n_output), 15, self.pricing, offered)

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
    sizes = []
    for _ in range(100):
        sizes.append(desk.size())
        if desk.calls.probing:
            desk.calls.settle("model", right=False)
    assert [i + 1 for i, n in enumerate(sizes) if n] == [20, 60, 100]
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
