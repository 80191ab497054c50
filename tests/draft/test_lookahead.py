from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgespec.backend.toy import ToyModel
from edgespec.draft.jacobi import JacobiDrafter
from edgespec.draft.lookahead import LookaheadDrafter
from edgespec.draft.lookup import LookupDrafter
from edgespec.spec.cost import CostTable
from edgespec.spec.law import SamplingSettings
from edgespec.spec.measured import MeasuredPolicy
from edgespec.spec.policy import FixedPolicy
from edgespec.spec.ports import Capabilities, Commit, Drafter, FloatArray, IntArray, Needs, Plan, Rows
from edgespec.spec.tree import EMPTY, check_tree, depths, is_chain, n_leaves, n_pinned
from tests.draft.decoding import decode
from tests.draft.fake import NoRows, commit_of, prompt_of
from tests.spec import rows
from tests.spec.plain_decoding import Asked, plain_exact, plain_fast
from tests.spec.wild_drafters import Witness

N_VOCAB = 7
ROOMY = Capabilities(n_ctx=300, n_vocab=N_VOCAB, max_rows=80, max_chunk=16, max_leaves=16, can_rollback=True)
KINDS: tuple[Callable[[], LookaheadDrafter], ...] = (
    lambda: LookaheadDrafter(1, 2, 0),
    lambda: LookaheadDrafter(3, 3, 10),
    lambda: LookaheadDrafter(5, 4),
    lambda: JacobiDrafter(1),
    lambda: JacobiDrafter(6),
)
SLOW = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])

models = st.builds(
    ToyModel,
    n_vocab=st.just(N_VOCAB),
    order=st.integers(1, 3),
    seed=st.integers(0, 10**6),
    n_levels=st.sampled_from([0, 3]),
    masked=st.sampled_from([0.0, 0.4]),
)
prompts = st.lists(st.integers(0, N_VOCAB - 1), min_size=1, max_size=8).map(tuple)


class TiedRows:
    """Row i says token i, so that whoever reads it shows what was read."""

    def __init__(self, n_vocab: int = 40) -> None:
        self._n_vocab = n_vocab
        self.read: list[int] = []

    def logits(self, row: int) -> FloatArray:
        self.read.append(row)
        logits = np.zeros(self._n_vocab, np.float32)
        logits[row] = 1.0
        return logits


class PinsSeen(Witness):
    """Counts the passes that carried all of its pinned nodes; there are none that carried a part of them."""

    def __init__(self, inner: Drafter) -> None:
        super().__init__(inner)
        self.n_kept = 0

    def observe(self, sequence: int, commit: Commit, rows: Rows, nodes: IntArray) -> None:
        kept = set((nodes[self.own.pinned] >= 0).tolist()) if n_pinned(self.own) else set()
        assert len(kept) <= 1
        self.n_kept += True in kept
        super().observe(sequence, commit, rows, nodes)


# -- speculative == plain ---------------------------------------------------------------------------------------------


@SLOW
@given(st.data(), models, prompts, st.sampled_from(KINDS), st.integers(0, 20), st.integers(1, 8))
def test_fast_answers_are_plain_ones(
    data: st.DataObject, model: ToyModel, prompt: tuple[int, ...], kind: Callable[[], LookaheadDrafter], n: int, k: int
) -> None:
    """Under any law, alone or beside a look-up; the windows' nodes are found again, all of them or none."""
    sampling = data.draw(rows.settings(N_VOCAB))
    asked = Asked(
        prompt, sampling, data.draw(st.sampled_from([1, 5, 20])), data.draw(st.sampled_from([frozenset(), {2}]))
    )
    drafters = (PinsSeen(kind()), *([Witness(LookupDrafter(1))] if data.draw(st.booleans()) else []))
    decoded = decode(model, ROOMY, asked, drafters, FixedPolicy(max_nodes=n, max_leaves=k))
    plain = plain_fast(model, asked)
    assert decoded.plain.finish == plain.finish
    assert decoded.plain.output == plain.output[: len(decoded.plain.output)]
    assert decoded.plain == plain or plain.finish is None


@SLOW
@given(models, prompts, st.sampled_from(KINDS), st.sampled_from([(2, 4, 8, 16), (1, 2, 3, 4, 5, 6), (3, 5, 11), (1,)]))
def test_exact_answers_are_plain_ones_bit_for_bit(
    model: ToyModel, prompt: tuple[int, ...], kind: Callable[[], LookaheadDrafter], widths: tuple[int, ...]
) -> None:
    """One branch is all there may be, so lookahead is Jacobi there."""
    asked = Asked(prompt, SamplingSettings(), 20, frozenset(), widths)
    limits = replace(ROOMY, width_classes=(widths,))
    decoded = decode(model, limits, asked, (kind(),), FixedPolicy(max_nodes=15, max_leaves=8))
    assert decoded.plain == plain_exact(model, limits, asked)
    assert all(report.tree_parents == tuple(range(-1, report.n_drafted - 1)) for report in decoded.reports)
    assert {report.n_rows for report in decoded.reports} <= set(widths)


def test_the_measured_policy_keeps_the_window_where_rows_are_free_and_drops_it_where_they_are_not() -> None:
    widths = (*range(1, 17), 24, 32)
    model, asked = ToyModel(n_vocab=N_VOCAB, order=2, seed=11), Asked((1, 2, 3), SamplingSettings(), 120)
    limits = replace(ROOMY, max_rows=32)
    pinned = {}
    for slope in (0.0, 0.6):
        table = CostTable((0,), widths, (tuple(1.0 + slope * (width - 1) for width in widths),))
        drafter = PinsSeen(LookaheadDrafter(5, 4))
        decoded = decode(model, limits, asked, (drafter,), MeasuredPolicy(table, max_leaves=16))
        assert decoded.plain == plain_fast(model, asked)
        pinned[slope] = drafter.n_kept / len(decoded.reports)
    assert pinned[0.0] > 0.8
    assert pinned[0.6] == 0.0


# -- the tree ---------------------------------------------------------------------------------------------------------


def begun(window: int = 3, level: int = 3, prompt: tuple[int, ...] = (5, 6, 7, 8, 5)) -> LookaheadDrafter:
    drafter = LookaheadDrafter(window, level)
    drafter.begin(0, prompt_of(prompt))
    return drafter


def step(drafter: LookaheadDrafter, plan: Plan, emitted: tuple[int, ...] = (30,)) -> list[int]:
    """A round in which every own node is verified, in its place; which rows were read."""
    tree, read = drafter.propose(0, plan), TiedRows()
    drafter.observe(0, commit_of(emitted), read, np.arange(len(tree), dtype=np.int32))
    return read.read


WIDE = Plan(40, 20)


def test_the_window_fills_level_by_level_and_is_read_at_its_ends() -> None:
    drafter = begun()
    tree = drafter.propose(0, WIDE)
    assert is_chain(tree)
    assert (len(tree), n_pinned(tree)) == (3, 3)
    assert sorted(step(drafter, WIDE)) == [1, 2, 3]
    tree = drafter.propose(0, WIDE)
    assert depths(tree)[tree.pinned].max() == 4
    assert n_leaves(tree) <= 3
    # What rows 2 and 3 said is now on level 1 of the columns that were second and third.
    assert [column[1] for column in drafter.guesses(0)][:2] == [2, 3]
    assert len(drafter.pool) == 0
    step(drafter, WIDE)
    assert len(drafter.pool) == 3


def test_pieces_that_begin_with_the_last_token_hang_beside_the_window() -> None:
    drafter = begun()
    for piece in ((30, 20, 21), (30, 22, 23), (31, 24, 25)):
        drafter.pool.add(piece)
    step(drafter, WIDE)
    tree = drafter.propose(0, WIDE)
    tops = tree.tokens[tree.parents == -1].tolist()
    assert tops[-2:] == [22, 20]
    assert not tree.pinned[np.isin(tree.tokens, [20, 21, 22, 23])].any()
    assert 24 not in tree.tokens.tolist()
    # With one leaf to spare, the newer piece is taken.
    fewer = drafter.propose(0, Plan(40, 4)).tokens.tolist()
    assert 22 in fewer
    assert 20 not in fewer


def test_a_window_too_wide_for_the_plan_is_narrowed() -> None:
    drafter = begun(window=4)
    step(drafter, WIDE)
    for plan, n_columns in ((Plan(40, 20), 4), (Plan(40, 3), 3), (Plan(5, 20), 2), (Plan(1, 20), 0)):
        tree = drafter.propose(0, plan)
        assert n_pinned(tree) <= 2 * n_columns
        assert n_leaves(tree) <= n_columns
        assert len(tree) == n_pinned(tree)
        assert len(tree) > 0 or n_columns == 0
    assert drafter.propose(0, Plan(0, 3)) is EMPTY


def test_a_window_that_was_cut_moves_on_unread() -> None:
    drafter, whole = begun(), begun()
    tree = drafter.propose(0, WIDE)
    before = drafter.guesses(0)
    nodes = np.arange(len(tree), dtype=np.int32)
    nodes[1] = -1
    drafter.observe(0, commit_of([30, 31]), NoRows(), nodes)
    assert drafter.guesses(0)[:1] == before[2:]
    # So does one that was not asked.
    whole.observe(0, commit_of([30, 31]), NoRows(), prompt_of([]))
    assert whole.guesses(0)[:1] == before[2:]


def test_guesses_come_from_what_the_text_said_before() -> None:
    drafter = begun(prompt=(1, 2, 3, 4, 1))
    assert drafter.guesses(0) == ((2,), (3,), (4,))
    drafter.begin(1, prompt_of([]))
    assert drafter.guesses(1) == ((0,), (0,), (0,))


def test_one_leaf_makes_it_a_chain_that_is_replaced() -> None:
    drafter = begun()
    drafter.pool.add((30, 20, 21))
    step(drafter, WIDE)
    chain = Plan(40, 1)
    tree = drafter.propose(0, chain)
    assert is_chain(tree)
    assert (len(tree), n_pinned(tree)) == (3, 3)
    assert step(drafter, chain) == [1, 2, 3]
    assert drafter.guesses(0) == ((1,), (2,), (3,))


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from(KINDS),
    st.lists(st.tuples(st.integers(0, 24), st.integers(0, 6), st.integers(1, 5), st.booleans()), max_size=12),
)
def test_any_run_of_rounds_fits_the_plan_and_pins_the_window_alone(
    kind: Callable[[], LookaheadDrafter], played: list[tuple[int, int, int, bool]]
) -> None:
    drafter = kind()
    drafter.begin(0, prompt_of([1, 2, 3, 1]))
    for n, leaves, n_emitted, verified in played:
        tree = drafter.propose(0, Plan(n, leaves))
        check_tree(tree, 40)
        assert len(tree) <= n
        assert n_leaves(tree) <= leaves
        assert len(set(zip(tree.parents.tolist(), tree.tokens.tolist(), strict=True))) == len(tree)
        nodes = np.arange(len(tree), dtype=np.int32) if verified else np.full(len(tree), -1, np.int32)
        drafter.observe(0, commit_of(list(range(n_emitted))), TiedRows(), nodes)


def test_what_it_needs_and_forgets() -> None:
    drafter = begun()
    assert drafter.needs == Needs.TOKENS | Needs.ROWS
    assert drafter.behind(0) == 0
    drafter.anticipate(0, EMPTY)
    drafter.end(0)
    drafter.end(0)
    with pytest.raises(KeyError):
        drafter.propose(0, WIDE)
    for window, level, pool_size in ((0, 2, 1), (1, 1, 1), (1, 2, -1)):
        with pytest.raises(ValueError, match="a window of"):
            LookaheadDrafter(window, level, pool_size)


# -- what it is for ---------------------------------------------------------------------------------------------------


def test_the_pool_makes_passes_fewer() -> None:
    """A text without loops for long, of a model that looks back little: what the window finds comes true later."""
    model = ToyModel(n_vocab=N_VOCAB, order=2, seed=11)
    asked = Asked((1, 2, 3), SamplingSettings(), 120)
    wide = decode(model, ROOMY, asked, (LookaheadDrafter(6, 4),), FixedPolicy(60, 14))
    assert wide.plain == plain_fast(model, asked)
    assert wide.tokens_per_pass > 1.5
    pieces = decode(model, ROOMY, asked, (LookaheadDrafter(6, 4, pool_size=0),), FixedPolicy(60, 14))
    assert wide.tokens_per_pass > pieces.tokens_per_pass
