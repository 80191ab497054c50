from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.backend.toy import ToyModel
from edgespec.draft.recycle import RecycleDrafter, Successors, likeliest
from edgespec.spec.ports import FloatArray, IntArray, Needs, Plan
from edgespec.spec.tree import EMPTY, DraftTree, check_tree, n_leaves
from tests.draft.fake import NoRows, commit_of, joined, prompt_of, walk
from tests.draft.test_contract import foreign_trees

MODEL = ToyModel(n_vocab=6, order=1, seed=4)
TREE = Plan(8, 4)


def row_of(**levels: float) -> FloatArray:
    """A row of 30 logits: token t5 has level t5, the others 0."""
    row = np.zeros(30, np.float32)
    for name, level in levels.items():
        row[int(name[1:])] = level
    return row


def best(token: int) -> int:
    """What the model says after a token."""
    return int(np.argmax(MODEL.logits([token])))


def said(start: int, n: int) -> list[int]:
    text = [start]
    for _ in range(n):
        text.append(best(text[-1]))
    return text[1:]


class TreeRows:
    """The model's rows over a tree; writes down which are read, and clears them all when its pass is over."""

    def __init__(self, last: int, tree: DraftTree) -> None:
        self._rows: list[FloatArray] = [MODEL.logits([token]).copy() for token in (last, *tree.tokens.tolist())]
        self.n_read = [0] * len(self._rows)

    def logits(self, row: int) -> FloatArray:
        self.n_read[row] += 1
        return self._rows[row]

    def die(self) -> None:
        for row in self._rows:
            row[:] = np.nan


def run(drafter: RecycleDrafter, last: int, n_tokens: int, plan: Plan = TREE, sequence: int = 0) -> int:
    """Rounds until so many tokens are out; how many passes they took."""
    n_passes, left = 0, said(last, n_tokens)
    while left:
        tree = drafter.propose(sequence, plan)
        rows = TreeRows(last, tree)
        commit = walk(tree, left)
        drafter.observe(sequence, commit, rows, np.arange(len(tree), dtype=np.int32))
        rows.die()
        last, left = commit.bonus, left[len(commit.tokens) :]
        n_passes += 1
    return n_passes


def begun(last: int) -> RecycleDrafter:
    drafter = RecycleDrafter()
    drafter.begin(0, prompt_of([last]))
    return drafter


# -- finding the likeliest --------------------------------------------------------------------------------------------


def twin(row: FloatArray, k: int) -> list[int]:
    places: list[int] = np.argsort(-row, kind="stable")[:k].tolist()
    return places


@settings(deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False), max_size=60), st.integers(1, 10))
def test_the_likeliest_of_a_short_row(values: list[float], k: int) -> None:
    row = np.array(values, np.float32)
    assert likeliest(row, k).tolist() == twin(row, k)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000), st.integers(4000, 9000), st.integers(1, 12), st.sampled_from([0.0, 0.5, 4.0]))
def test_the_likeliest_of_a_long_row_with_ties_and_masked_tokens(seed: int, n: int, k: int, coarse: float) -> None:
    rng = np.random.default_rng(seed)
    row = rng.normal(size=n).astype(np.float32)
    if coarse:
        row = np.round(row / coarse).astype(np.float32)
    row[rng.random(n) < seed % 5 / 4] = -np.inf
    assert likeliest(row, k).tolist() == twin(row, k)


def test_nan_counts_as_the_smallest_value() -> None:
    row = np.full(5000, np.nan, np.float32)
    row[[7, 4999]] = [1.0, 2.0]
    assert likeliest(row, 2).tolist() == [4999, 7]


# -- the table --------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 50)), max_size=40), st.integers(1, 9))
def test_the_table_holds_the_last_row_of_each_token(seen: list[tuple[int, int]], k: int) -> None:
    table = Successors(k)
    known: dict[int, list[int]] = {}
    for token, seed in seen:
        row = np.random.default_rng(seed).normal(size=6).astype(np.float32)
        table.learn(token, row)
        known[token] = [*twin(row, k), *[-1] * (k - 6)]
    assert len(table) == len(known)
    for token, ids in known.items():
        assert token in table
        assert table.after(token)[0] == ids
        assert table.first(token) == ids[0]


def test_the_table_grows_by_lines_and_never_beyond_one_per_token() -> None:
    table = Successors(4)
    for token in [*range(1000), *range(1000)]:
        table.learn(token, row_of(t1=1.0 + token, t2=0.5))
    assert len(table) == 1000
    assert [table.after(token)[0][:2] for token in (0, 255, 256, 999)] == [[1, 2]] * 4


def test_unknown_and_masked_tokens() -> None:
    table = Successors(4)
    assert table.after(5) == ([], 0)
    assert table.first(5) == -1
    row = np.full(30, -np.inf, np.float32)
    table.learn(5, row)
    assert 5 not in table
    row[3] = 1.0
    table.learn(5, row)
    assert table.after(5) == ([3, -1, -1, -1], 3)


@pytest.mark.parametrize(("level", "lead"), [(0.0, 0), (0.4, 0), (0.6, 1), (2.0, 2), (3.0, 3), (9.0, 3)])
def test_how_clearly_the_first_token_led(level: float, lead: int) -> None:
    table = Successors(4)
    table.learn(1, row_of(t7=10.0 + level, t8=10.0))
    assert table.after(1)[1] == lead


# -- the drafter ------------------------------------------------------------------------------------------------------


def test_a_model_of_pairs_is_learnt_from_its_own_rows() -> None:
    drafter = begun(0)
    assert drafter.propose(0, TREE) is EMPTY
    first, later = run(drafter, 0, 40), run(drafter, said(0, 40)[-1], 40)
    assert later < first < 40
    assert len(drafter.successors) <= MODEL.n_vocab
    for token in range(MODEL.n_vocab):
        if token in drafter.successors:
            assert drafter.successors.after(token)[0][:6] == twin(MODEL.logits([token]), 6)


def test_sequences_share_the_table_and_an_ended_one_is_forgotten() -> None:
    drafter = begun(0)
    run(drafter, 0, 20)
    drafter.begin(1, prompt_of([9, 0]))
    tokens = drafter.propose(1, Plan(1)).tokens.tolist()
    assert tokens == [best(0)]
    drafter.end(0)
    drafter.end(0)
    with pytest.raises(KeyError):
        drafter.propose(0, TREE)
    drafter.begin(2, prompt_of([]))
    assert drafter.propose(2, TREE) is EMPTY
    drafter.anticipate(1, EMPTY)
    assert drafter.behind(1) == 0
    assert drafter.needs == Needs.TOKENS | Needs.ROWS


def seeded(*lines: tuple[int, FloatArray]) -> RecycleDrafter:
    drafter = begun(1)
    for token, row in lines:
        drafter.successors.learn(token, row)
    return drafter


class CountedRows:
    def __init__(self) -> None:
        self.read: list[int] = []

    def logits(self, row: int) -> FloatArray:
        self.read.append(row)
        return row_of(t20=5.0, t21=4.0)


def test_a_row_whose_first_guess_came_true_is_not_read_again() -> None:
    drafter, rows = seeded((1, row_of(t2=9.0, t3=1.0))), CountedRows()
    tree = drafter.propose(0, Plan(1))
    assert tree.tokens.tolist() == [2]
    drafter.observe(0, commit_of([2, 8], path=[0]), rows, prompt_of([0]))
    assert rows.read == [1]
    assert drafter.successors.first(1) == 2
    assert drafter.successors.first(2) == 20
    assert drafter.n_read == 1


def test_a_row_whose_guess_was_wrong_is_read() -> None:
    drafter, rows = seeded((1, row_of(t2=9.0, t3=1.0))), CountedRows()
    drafter.propose(0, Plan(1))
    drafter.observe(0, commit_of([3]), rows, prompt_of([-1]))
    assert rows.read == [0]
    assert drafter.successors.first(1) == 20


def test_rejected_nodes_teach_what_is_not_yet_known_but_few_of_them() -> None:
    drafter, rows = seeded((1, row_of(t2=9.0, t3=8.9, t4=8.8, t5=8.7))), CountedRows()
    drafter.successors.learn(2, row_of(t6=1.0))
    rates = drafter._rates
    for situation in range(len(rates.values)):
        for _ in range(50):
            rates.observe(situation, True)
    tree = drafter.propose(0, Plan(8, 8))
    assert tree.tokens.tolist()[:4] == [2, 3, 4, 5]
    nodes = np.arange(len(tree), dtype=np.int32) + 10
    nodes[2] = -1
    drafter.observe(0, commit_of([9]), rows, nodes)
    # Token 2 has a line, token 4 was cut; row 0 is the last committed token's own.
    assert rows.read == [10 + 1 + 1, 10 + 3 + 1, 0]
    assert {3, 5} <= {token for token in range(30) if token in drafter.successors}


def test_rounds_it_was_not_asked_in_teach_too() -> None:
    drafter, rows = begun(1), CountedRows()
    drafter.observe(0, commit_of([5, 6, 7], path=[3, 8]), rows, prompt_of([]))
    assert rows.read == [0, 4, 9]
    assert [drafter.successors.first(token) for token in (1, 5, 6, 7)] == [20, 20, 20, -1]


def test_while_nobody_asks_one_round_in_eight_is_read() -> None:
    drafter, rows = begun(1), CountedRows()
    for _ in range(24):
        drafter.propose(0, Plan(0))
        drafter.observe(0, commit_of([5]), rows, prompt_of([]))
        drafter.observe(0, commit_of([1]), rows, prompt_of([]))
    assert len(rows.read) == 6
    drafter.propose(0, Plan(4))
    drafter.observe(0, commit_of([9]), rows, prompt_of([]))
    assert len(rows.read) == 7


def test_a_walk_cut_by_its_limit_leaves_the_last_token_without_a_row() -> None:
    drafter, rows = seeded((1, row_of(t2=9.0)), (2, row_of(t3=9.0))), CountedRows()
    tree = drafter.propose(0, Plan(2))
    commit = walk(tree, [2])
    drafter.observe(0, commit, rows, np.arange(len(tree), dtype=np.int32))
    # Token 3 was guessed and not judged: its row is all that was new.
    assert rows.read == [2]
    assert drafter.propose(0, Plan(1)).tokens.tolist() == [3]


def test_rates_decide_between_ranks() -> None:
    """Where the second rank is always right it becomes the draft."""
    drafter = seeded((1, row_of(t2=9.0, t3=8.9)))
    assert drafter.propose(0, Plan(1)).tokens.tolist() == [2]
    for _ in range(30):
        drafter.propose(0, Plan(2, 2))
        # The row says the same again, so the table stays as it is.
        rows = TreeRows(1, EMPTY)
        rows._rows = [row_of(t2=9.0, t3=8.9)]
        drafter.observe(0, commit_of([3]), rows, prompt_of([-1, -1]))
        drafter.begin(0, prompt_of([1]))
    assert drafter.propose(0, Plan(1)).tokens.tolist() == [3]


@settings(deadline=None)
@given(
    st.integers(0, 5),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4), foreign_trees, st.integers(1, 6)), max_size=12),
)
def test_any_run_of_rounds_fits_the_plan_and_learns_the_models_own_rows(
    start: int, played: list[tuple[int, int, DraftTree, int]]
) -> None:
    """With trees of another drafter beside its own, cut to size: a row read at a wrong place would teach nonsense."""
    drafter, last = begun(start), start
    for n, leaves, foreign, limit in played:
        own = drafter.propose(0, Plan(n, leaves))
        check_tree(own, MODEL.n_vocab)
        assert len(own) <= n
        assert n_leaves(own) <= leaves
        verified, nodes = joined(own, foreign, 7, 3)
        rows = TreeRows(last, verified)
        commit = walk(verified, said(last, limit))
        drafter.observe(0, commit, rows, nodes)
        rows.die()
        last = commit.bonus
    assert_lines(drafter, range(MODEL.n_vocab))


def assert_lines(drafter: RecycleDrafter, tokens: Sequence[int]) -> None:
    for token in tokens:
        if token in drafter.successors:
            assert drafter.successors.after(token)[0][:6] == twin(MODEL.logits([token]), 6)


def test_nothing_is_read_outside_of_observe() -> None:
    drafter = begun(0)
    run(drafter, 0, 10)
    n_read = drafter.n_read
    nodes: IntArray = prompt_of([])
    drafter.propose(0, TREE)
    drafter.begin(1, prompt_of([3]))
    assert drafter.n_read == n_read
    with pytest.raises(AssertionError, match="row 0 was read"):
        drafter.observe(1, commit_of([best(3) ^ 1]), NoRows(), nodes)
