from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.backend.toy import Cell, ToyModel, ToyTarget
from edgespec.errors import StaleRows
from edgespec.spec.ports import Capabilities, Commit, IntArray, Target, VerifyRequest
from edgespec.spec.tree import EMPTY, DraftTree, chain, leaves, tree_of
from tests.spec.random_trees import line, trees

MODEL = ToyModel(n_vocab=6, order=3)
LIMITS = Capabilities(n_ctx=60, n_vocab=6, max_rows=12, max_chunk=8, max_leaves=4, can_rollback=True)
TREE = tree_of([1, 2, 3, 4], [-1, -1, 1, 0], [0.5] * 4)


def ids(*tokens: int) -> IntArray:
    return np.array(tokens, dtype=np.int32)


def request(*pending: int, tree: DraftTree = EMPTY, sequence: int = 0, canonical: bool = False) -> VerifyRequest:
    return VerifyRequest(sequence, ids(*pending), tree, canonical)


def commit(path: list[int], *tokens: int) -> Commit:
    return Commit(ids(*path), ids(*tokens))


def fresh(model: ToyModel = MODEL, limits: Capabilities = LIMITS, window: int = 0, rounding: bool = False) -> ToyTarget:
    return ToyTarget(model, limits, window, rounding)


def test_it_is_a_target() -> None:
    target: Target = fresh()
    assert target.capabilities.n_vocab == 6
    assert ToyTarget(MODEL).capabilities.max_rows == 64


def test_logits_are_a_function_of_the_last_tokens() -> None:
    row = MODEL.logits([9, 1, 2, 3])
    assert row.dtype == np.float32
    assert row.tolist() == MODEL.logits([5, 5, 1, 2, 3]).tolist()
    for other in ([9, 1, 2, 4], [9, 1, 3, 2], [9, 0, 2, 3], [2, 3]):
        assert row.tolist() != MODEL.logits(other).tolist()
    assert row.tolist() != replace(MODEL, seed=1).logits([9, 1, 2, 3]).tolist()
    assert np.abs(row).max() <= 3.0


def test_ties_and_impossible_tokens() -> None:
    rows = [ToyModel(n_vocab=40, n_levels=4, masked=0.5).logits([i]) for i in range(50)]
    assert all(len(set(row[row > -np.inf].tolist())) <= 4 for row in rows)
    share = np.mean([np.isinf(row).mean() for row in rows])
    assert 0.4 < share < 0.6
    assert all(np.isfinite(ToyModel(masked=1.0).logits([i])).sum() == 1 for i in range(50))


@settings(max_examples=200)
@given(trees(8), st.lists(st.integers(0, 3), min_size=1, max_size=5), st.lists(st.integers(0, 3), max_size=8))
def test_rows_are_the_model_on_the_text_of_each_node(tree: DraftTree, pending: list[int], read: list[int]) -> None:
    limits = replace(LIMITS, max_leaves=8, max_rows=20)
    target = fresh(limits=limits)
    if read:
        target.extend(0, ids(*read))
    rows = target.verify([request(*pending, tree=tree)], 20)[0]
    assert rows.logits(0).tolist() == MODEL.logits(read + pending).tolist()
    for node in range(len(tree)):
        text = [*read, *pending, *tree.tokens[line(tree, node)].tolist()]
        assert rows.logits(node + 1).tolist() == MODEL.logits(text).tolist()


@settings(max_examples=150)
@given(st.data(), st.booleans())
def test_the_cache_always_holds_the_text_before_pending(data: st.DataObject, canonical: bool) -> None:
    target = fresh()
    text, pending = [1], ids(1)
    for _ in range(6):
        tree = data.draw(trees(5))
        if len(leaves(tree)) > LIMITS.max_leaves or target.length(0) > 40:
            tree = EMPTY
        rows = target.verify([VerifyRequest(0, pending, tree, canonical)], 12)[0]
        node = data.draw(st.integers(-1, len(tree) - 1))
        nodes = line(tree, node) if node >= 0 else []
        verdict = commit(nodes, *tree.tokens[nodes].tolist(), data.draw(st.integers(0, 5)))
        assert rows.logits(node + 1).tolist() == MODEL.logits(text + verdict.tokens[:-1].tolist()).tolist()
        text += verdict.tokens.tolist()
        pending = target.commit(0, verdict)
        assert pending.dtype == np.int32
        assert target.length(0) == len(text) - len(pending)
        cells = target.cells(0)
        assert [cell.token for cell in cells] + pending.tolist() == text
        assert [cell.position for cell in cells] == list(range(len(cells)))
        if canonical:
            assert not any(cell.shift for cell in cells)
        else:
            assert pending.tolist() == [verdict.bonus]


def test_a_side_branch_moves_its_cells_unless_canonical() -> None:
    side = commit([1, 2], 2, 3, 5)
    target = fresh()
    target.verify([request(0, tree=TREE)], 5)
    assert target.commit(0, side).tolist() == [5]
    assert target.cells(0) == (Cell(0, 0), Cell(2, 1, shift=1), Cell(3, 2, shift=1))
    target = fresh()
    target.verify([request(0, tree=TREE, canonical=True)], 5)
    assert target.commit(0, side).tolist() == [2, 3, 5]
    assert target.cells(0) == (Cell(0, 0),)


def test_a_canonical_commit_keeps_what_sits_in_line() -> None:
    target = fresh()
    target.verify([request(0, tree=TREE, canonical=True)], 5)
    # Node 0 sits right behind the pending token, its child is node 3.
    assert target.commit(0, commit([0, 3], 1, 4, 5)).tolist() == [4, 5]
    assert target.cells(0) == (Cell(0, 0), Cell(1, 1))


def test_a_misplaced_or_stale_cell_changes_the_logits() -> None:
    def row_after(*cells: Cell) -> list[float]:
        target = fresh()
        target.extend(0, ids(1, 2, 3))
        target._states[0].cells[:] = cells
        logits: list[float] = target.verify([request(4)], 1)[0].logits(0).tolist()
        return logits

    right = row_after(Cell(1, 0), Cell(2, 1), Cell(3, 2))
    assert right == MODEL.logits([1, 2, 3, 4]).tolist()
    assert right != row_after(Cell(1, 0), Cell(2, 1), Cell(3, 1))
    assert right != row_after(Cell(1, 0), Cell(2, 1), Cell(3, 2), Cell(5, 2))
    assert right != row_after(Cell(1, 0), Cell(2, 1), Cell(3, 2), Cell(5, 9))
    assert right != row_after(Cell(1, 0), Cell(2, 1))


def test_rounding_follows_the_width_class_and_the_place_of_cells() -> None:
    limits = replace(LIMITS, width_classes=((1, 3), (2, 4)))

    def row(width: int, side: bool = False) -> list[float]:
        target = fresh(limits=limits, rounding=True)
        tree = TREE if side else chain([2], [0.5])
        target.verify([request(0, tree=tree)], 5)
        target.commit(0, commit([1 if side else 0], 2, 5))
        logits: list[float] = target.verify([request(5)], width)[0].logits(0).tolist()
        return logits

    assert row(1) == row(3)
    assert row(2) == row(4)
    assert len({tuple(row(width)) for width in (1, 2, 5, 6)}) == 4
    assert row(1) != row(1, side=True)
    assert row(1) == pytest.approx(MODEL.logits([0, 2, 5]), abs=2e-3)


def test_sequences_do_not_see_each_other() -> None:
    target = fresh()
    rows = target.verify([request(1, 2, sequence=3), request(4, sequence=8, tree=TREE)], 7)
    assert rows[0].logits(0).tolist() == MODEL.logits([1, 2]).tolist()
    assert rows[1].logits(2).tolist() == MODEL.logits([4, 2]).tolist()
    target.commit(3, commit([], 0))
    target.commit(8, commit([1], 2, 0))
    assert (target.length(3), target.length(8)) == (2, 2)
    target.release(3)
    target.release(3)
    assert (target.length(3), target.length(8)) == (0, 2)


def test_rows_die_at_the_next_pass_and_not_before() -> None:
    target = fresh()
    rows = target.verify([request(1)], 1)[0]
    target.commit(0, commit([], 2))
    target.rewind(0, 0)
    rows.logits(0)
    with pytest.raises(ValueError, match="read-only"):
        rows.logits(0)[0] = 1.0
    with pytest.raises(ValueError, match="row 1 of 1"):
        rows.logits(1)
    target.extend(0, ids(1))
    with pytest.raises(StaleRows):
        rows.logits(0)
    later = target.verify([request(1)], 1)[0]
    target.commit(0, commit([], 2))
    target.verify([request(2)], 1)
    with pytest.raises(StaleRows):
        later.logits(0)


def test_rewind_keeps_what_lies_below() -> None:
    target = fresh()
    target.extend(0, ids(1, 2, 3, 4))
    assert target.rewind(0, 9) == 4
    assert target.rewind(0, 2) == 2
    target.extend(0, ids(5))
    assert [cell.token for cell in target.cells(0)] == [1, 2, 5]
    assert target.rewind(7, 0) == 0


def test_a_target_without_rollback_starts_again() -> None:
    target = fresh(limits=replace(LIMITS, can_rollback=False))
    target.extend(0, ids(1, 2, 3))
    assert target.rewind(0, 3) == 3
    assert target.rewind(0, 2) == 0
    assert target.cells(0) == ()
    with pytest.raises(ValueError, match="without rollback"):
        target.verify([request(1, tree=TREE)], 5)


def test_a_window_forgets_and_rewinds_only_within_its_slack() -> None:
    target = fresh(window=4)
    for start in range(0, 40, 8):
        target.extend(0, ids(*(i % 6 for i in range(start, start + 8))))
    # Window 4 + max_rows 12: positions 24 to 39 are left, and a row at length 28 still finds its 4 cells.
    assert [cell.position for cell in target.cells(0)] == list(range(24, 40))
    assert target.rewind(0, 28) == 28
    row = target.verify([request(5)], 1)[0].logits(0)
    assert row.tolist() == MODEL.logits([2, 3, 5]).tolist()
    target.commit(0, commit([], 0))
    assert target.rewind(0, 27) == 0
    assert target.length(0) == 0
    assert target.cells(0) == ()


def test_a_window_that_has_forgotten_nothing_rewinds_anywhere() -> None:
    target = fresh(window=4)
    target.extend(0, ids(1, 2, 3, 4, 5))
    assert target.rewind(0, 1) == 1


@pytest.mark.parametrize(
    ("requests", "width", "message"),
    [
        ([request(1, tree=TREE)], 4, "width of 4 for 5 rows"),
        ([request(1)], 13, "width of 13"),
        ([request(1), request(2)], 2, "twice"),
        ([request()], 1, "no pending"),
        ([request(6)], 1, "beyond a vocabulary"),
        ([request(-1)], 1, "beyond a vocabulary"),
        ([request(1, tree=tree_of([6], [-1], [0.5]))], 2, "token ids"),
        ([request(1, tree=tree_of([1], [0], [0.5]))], 2, "parent"),
        ([request(1, tree=tree_of([0, 1, 2, 3, 4], [-1] * 5, [0.5] * 5))], 6, "5 leaves"),
    ],
)
def test_a_pass_that_a_real_target_cannot_take(requests: list[VerifyRequest], width: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fresh().verify(requests, width)


def test_the_context_is_finite() -> None:
    target = fresh()
    for _ in range(7):
        target.extend(0, ids(*[0] * 8))
    with pytest.raises(ValueError, match=r"56 \+ 5 cells"):
        target.verify([request(1, tree=TREE)], 5)
    with pytest.raises(ValueError, match=r"56 \+ 8 cells"):
        target.extend(0, ids(*[0] * 8))
    target.verify([request(1, tree=chain([1, 2, 3], [0.5] * 3))], 4)


@pytest.mark.parametrize("tokens", [[], [0] * 9, [6]])
def test_a_chunk_that_a_real_target_cannot_take(tokens: list[int]) -> None:
    with pytest.raises(ValueError, match="cannot take"):
        fresh().extend(0, ids(*tokens))


def test_pending_is_what_the_last_commit_returned() -> None:
    target = fresh()
    target.verify([request(1)], 1)
    target.commit(0, commit([], 2))
    with pytest.raises(ValueError, match=r"\[3\] pending instead of \[2\]"):
        target.verify([request(3)], 1)
    target.rewind(0, 1)
    target.verify([request(3)], 1)
    target.commit(0, commit([], 2))
    target.extend(0, ids(4))
    target.verify([request(3)], 1)


def test_every_pass_is_settled_before_the_next() -> None:
    target = fresh()
    with pytest.raises(ValueError, match="without a verify"):
        target.commit(0, commit([], 1))
    target.verify([request(1)], 1)
    for call in (
        lambda: target.verify([request(1)], 1),
        lambda: target.extend(0, ids(1)),
        lambda: target.rewind(0, 0),
    ):
        with pytest.raises(ValueError, match="awaits a commit"):
            call()
    target.release(0)
    target.verify([request(1)], 1)
    target.commit(0, commit([], 1))
    with pytest.raises(ValueError, match="without a verify"):
        target.commit(0, commit([], 1))


@pytest.mark.parametrize(
    "verdict",
    [
        commit([0], 1),
        commit([], 1, 2),
        commit([2], 3, 0),
        commit([0, 2], 1, 3, 0),
        commit([1, 1], 2, 2, 0),
        commit([0], 2, 0),
        commit([4], 0, 0),
        commit([-1], 4, 0),
    ],
)
def test_a_verdict_that_is_no_path_of_the_tree(verdict: Commit) -> None:
    target = fresh()
    target.verify([request(1, tree=TREE)], 5)
    with pytest.raises(ValueError, match="cannot take"):
        target.commit(0, verdict)


def test_impossible_targets() -> None:
    with pytest.raises(ValueError, match="another vocabulary"):
        ToyTarget(MODEL, replace(LIMITS, n_vocab=7))
    with pytest.raises(ValueError, match="below the order"):
        fresh(window=2)
