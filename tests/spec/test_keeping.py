"""Windows of pinned nodes under the measured policy: kept where rows are next to free, left off where they are not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

import numpy as np
import pytest

from edgespec.events import RoundReport
from edgespec.spec.acceptance import Acceptance
from edgespec.spec.cost import CostTable
from edgespec.spec.keeping import any_pinned, keep_pinned
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.ledger import Entry
from edgespec.spec.ledger import replay as replayed
from edgespec.spec.measured import MeasuredPolicy
from edgespec.spec.policy import Offer, Proposed, Reason
from edgespec.spec.ports import Capabilities, Plan
from edgespec.spec.prices import Pricing
from edgespec.spec.sequence import SequenceState
from edgespec.spec.simulate import line, through
from edgespec.spec.tree import EMPTY, DraftMode, DraftTree, chain, n_pinned, tree_of
from edgespec.spec.upkeep import Upkeep

WIDTHS = (*range(1, 17), 20, 24, 32)
# Two cores with AMX, SmolLM2-135M: what a pass of so many rows takes, in ms.
STEPPED = through([(1, 9.3), (2, 13.1), (3, 14.4), (4, 15.7), (6, 18.2), (8, 20.8), (12, 25.0), (16, 29.2), (32, 52.9)])
# Measured there over six prompts of 64 tokens: columns of windows of level 3, 3 and 4, rows and tokens of a pass.
MEASURED = ((4, 10, 1.67), (8, 17, 1.66), (5, 15, 1.71))
ROOMY = Capabilities(n_ctx=100_000, n_vocab=1000, max_rows=32, max_chunk=64, max_leaves=16, can_rollback=True)


def window(n_nodes: int, n_columns: int) -> DraftTree:
    """Level 0 as a chain, the rest below its columns, all pinned; nothing of it ever comes true."""
    parents = [node - 1 if node < n_columns else node - n_columns for node in range(n_nodes)]
    return tree_of(range(900, 900 + n_nodes), parents, [0.0] * n_nodes, pinned=[True] * n_nodes)


@dataclass
class Played:
    n_tokens: int
    n_kept: int
    n_asked: int
    seconds: float


def play(
    curve: tuple[float, ...],
    n_rows: int,
    n_columns: int,
    tokens_per_pass: float,
    n_rounds: int = 600,
    call_seconds: float = 1e-4,
) -> Played:
    """Rounds on a virtual clock. A pass with the window gives so many tokens on average, one without it one."""
    table = CostTable((0,), WIDTHS, (tuple(curve[width] for width in WIDTHS),))
    journal: list[Entry] = []
    policy = MeasuredPolicy(table, max_leaves=16, journal=journal.append)
    state = SequenceState.start(0, [1], Law(SamplingSettings()), 10**6, frozenset())
    random, played = Random(1), Played(0, 0, 0, 0.0)
    for _ in range(n_rounds):
        plan = policy.plan(state, "lookahead", ROOMY, 1)
        played.n_asked += plan.max_nodes > 0
        tree = window(n_rows - 1, n_columns) if plan.max_nodes else EMPTY
        called = call_seconds if plan.max_nodes else 0.0
        offer = Offer(state, (Proposed("lookahead", plan, tree, called),))
        chosen = policy.select([offer], ROOMY)[0]
        assert n_pinned(chosen.tree) in (0, n_pinned(tree))
        kept = len(chosen.tree) > 0
        n_emitted = 1 + (kept and random.random() < tokens_per_pass - 1.0)
        seconds = curve[1 + len(chosen.tree)]
        state.tokens += [5] * n_emitted
        report = RoundReport(
            1 + len(chosen.tree), 0, len(chosen.tree), 0, (5,) * n_emitted, (), called, seconds, seconds + called
        )
        policy.record([offer], [report], called)
        played.n_tokens, played.n_kept = played.n_tokens + n_emitted, played.n_kept + kept
        played.seconds += seconds + called
    assert replayed(journal).kept
    return played


sizes = pytest.mark.parametrize(("columns", "rows", "tokens"), MEASURED)


@sizes
def test_on_this_machines_stepped_curve_it_is_left_off(columns: int, rows: int, tokens: float) -> None:
    played = play(STEPPED, rows, columns, tokens)
    assert played.n_kept == 0
    assert played.n_asked <= 12
    assert played.seconds / played.n_tokens <= 1.01


@sizes
@pytest.mark.parametrize("slope", [0.0, 0.01])
def test_on_a_flat_curve_it_is_on(columns: int, rows: int, tokens: float, slope: float) -> None:
    played = play(line(slope), rows, columns, tokens)
    assert played.n_kept > 500
    gain = tokens / (1.0 + slope * (rows - 1))
    assert played.n_tokens / played.seconds > 0.95 * gain


def test_a_window_whose_call_takes_time_is_charged_for_it() -> None:
    """Three hundredths of a plain pass: no other drafter is asked for that without having shown what it gives."""
    played = play(line(0.01), 10, 4, 1.67, call_seconds=0.03)
    assert played.n_kept > 500
    assert play(line(0.01), 10, 4, 1.67, call_seconds=0.8).n_kept == 0


def test_a_text_on_which_it_fails_costs_little_and_is_left() -> None:
    """Believed to pay, but no window's guess ever comes true."""
    played = play(line(0.03), 10, 4, 1.0)
    assert played.n_kept < 40
    assert played.seconds / played.n_tokens <= 1.03


# -- one decision -----------------------------------------------------------------------------------------------------

PRICING = Pricing(1, [1.0 + 0.02 * n for n in range(20)], 1.0)
WINDOW = window(6, 3)


def offer_of(*trees: DraftTree, n_sequences: int = 1) -> list[Offer]:
    state = SequenceState.start(0, [1, 2], Law(SamplingSettings()), 100, frozenset())
    proposed = tuple(Proposed(f"d{i}", Plan(19, 8), tree, 0.0) for i, tree in enumerate(trees))
    return [Offer(state, proposed)] * n_sequences


def test_it_is_kept_with_as_many_others_as_pay_beside_it() -> None:
    upkeep = Upkeep()
    offers = offer_of(WINDOW, chain([1, 2, 3], [0.9, 0.8, 0.0]))
    kept = keep_pinned(offers, Acceptance(), upkeep, PRICING, 0.0, 9.0, 1.0)
    assert kept is not None
    assert (kept.weighed.n_pinned, upkeep.kept) == (6, frozenset({"d0"}))
    assert 6 < kept.n_nodes <= 9
    assert len(kept.weighed.select(kept.n_nodes - 6).tree) == kept.n_nodes
    assert Upkeep().expected(["d0"]) < kept.tokens < Upkeep().expected(["d0"]) + 2.0
    assert kept.seconds == PRICING.seconds[kept.n_nodes]


def test_what_is_better_without_it_makes_its_drafter_rest() -> None:
    upkeep = Upkeep()
    assert (
        keep_pinned(
            offer_of(WINDOW), Acceptance(), upkeep, Pricing(1, [1.0 + 0.2 * n for n in range(20)], 1.0), 0.0, 9.0, 1.0
        )
        is None
    )
    assert upkeep.rests("d0")
    # One that is too large for any pass too.
    upkeep = Upkeep()
    assert keep_pinned(offer_of(window(30, 3)), Acceptance(), upkeep, PRICING, 0.0, 9.0, 1.0) is None
    assert upkeep.rests("d0")


def test_a_better_offer_of_others_comes_first_but_is_nothing_to_rest_for() -> None:
    """The pinning drafter's own guesses are not held against its pins."""
    upkeep, steep = Upkeep(), Pricing(1, [1.0 + 0.1 * n for n in range(20)], 1.0)
    good = chain([1, 2, 3, 4, 5], [0.99, 0.98, 0.97, 0.96, 0.95])
    acceptance = Acceptance()
    for name in ("d0", "d1"):
        for _ in range(60):
            watch = acceptance.calibrate(0, name, 0, good, 0)[1]
            acceptance.score(0, name, watch, 0, [1, 2, 3, 4, 5, 6])
    assert keep_pinned(offer_of(WINDOW, good), acceptance, upkeep, steep, 0.0, 9.0, 1.0) is None
    assert not upkeep.rests("d0")
    own = tree_of(
        [*WINDOW.tokens.tolist(), 1, 2, 3, 4, 5],
        [*WINDOW.parents.tolist(), -1, 6, 7, 8, 9],
        [0.0] * 6 + good.survival.tolist(),
        pinned=[True] * 6 + [False] * 5,
    )
    assert keep_pinned(offer_of(own), acceptance, upkeep, steep, 0.0, 9.0, 1.0) is not None


def test_what_the_ledger_forbids_is_asked_again() -> None:
    upkeep = Upkeep()
    assert keep_pinned(offer_of(WINDOW), Acceptance(), upkeep, PRICING, 0.0, 1.05, 1.0) is None
    assert not upkeep.rests("d0")
    assert not upkeep.kept


def test_in_a_batch_and_beside_a_drawn_tree_there_are_no_pins() -> None:
    drawn = chain([1], [0.5], mode=DraftMode.SAMPLED)
    for offers in (offer_of(WINDOW, n_sequences=2), offer_of(WINDOW, drawn)):
        assert any_pinned(offers)
        assert keep_pinned(offers, Acceptance(), Upkeep(), PRICING, 0.0, 9.0, 1.0) is None
    assert not any_pinned(offer_of(chain([1], [0.5])))


def test_the_policy_says_what_it_expects_of_a_window() -> None:
    table = CostTable((0,), WIDTHS, (tuple(line(0.01)[width] for width in WIDTHS),))
    policy = MeasuredPolicy(table, max_leaves=16)
    offers = offer_of(WINDOW)
    assert len(policy.select(offers, ROOMY)[0].tree) == 6
    decision = policy.decision
    assert (decision.reason, decision.n_nodes, decision.n_rows) == (Reason.DRAFTED, 6, 7)
    assert decision.expected_tokens == Upkeep().expected(["d0"])
    two = [replace(offers[0]), replace(offers[0])]
    assert [len(one.tree) for one in policy.select(two, ROOMY)] == [0, 0]
    assert policy.decision.reason is Reason.NOT_WORTH_IT
    assert np.all(policy.select(two, ROOMY)[0].nodes[0] == -1)
