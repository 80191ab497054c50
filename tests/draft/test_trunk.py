"""What a trunk ranks depends on the text alone; it reads what is missing and no more; nonsense never gets through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.draft.trunk import Trunk, check_ranked, n_shared
from edgespec.errors import EngineFailure
from edgespec.spec.ports import FloatArray, IntArray
from edgespec.spec.step import Ranked
from tests.draft.toy_step import ToyStep, hashed, toy_limits

N_VOCAB = 5
LOGITS = hashed(N_VOCAB, 7)


def always() -> bool:
    return True


def fresh(text: Sequence[int]) -> Ranked:
    step = ToyStep(LOGITS, toy_limits(N_VOCAB, 3, max_rows=300))
    return step.run(np.array(text, np.int32), 0)


def same(found: Ranked | None, text: Sequence[int], rows: slice = slice(-1, None)) -> None:
    expected = fresh(text)
    assert found is not None
    np.testing.assert_array_equal(found.ids, expected.ids[rows])
    np.testing.assert_array_equal(found.logits, expected.logits[rows])
    np.testing.assert_array_equal(found.log_sums, expected.log_sums[rows])


class Forgetful(ToyStep):
    """Fails at its n-th call, and has then lost its cells."""

    fails_at = -1

    def _write(self, tokens: IntArray, start: int, parents: IntArray | None) -> None:
        self.fails_at -= 1
        if self.fails_at == 0:
            self.cells = []
            raise EngineFailure("the toy", "it was asked to fail", "ask it again")
        super()._write(tokens, start, parents)


texts = st.lists(st.integers(0, 1), min_size=1, max_size=24)  # two tokens only: texts share beginnings
calls = st.tuples(texts, st.lists(st.integers(0, 99), max_size=6), st.integers(0, 99), st.integers(0, 6))


@given(st.lists(calls, max_size=12), st.booleans(), st.integers(1, 8), st.integers(1, 9))
def test_any_text_after_any_other_is_ranked_as_if_read_anew(
    played: list[tuple[list[int], list[int], int, int]], branches: bool, max_rows: int, max_chunk: int
) -> None:
    """Between two texts, branches hang anywhere; then the text may be one that walks down a branch; calls may fail."""
    step = Forgetful(LOGITS, toy_limits(N_VOCAB, 3, 32, max_rows, max_chunk, branches))
    trunk = Trunk(step)
    for text, ups, follow, fails_at in played:
        step.fails_at = fails_at or -1
        try:
            hang(trunk, step, text, ups)
        except EngineFailure:
            assert trunk.n_cells == 0
        step.fails_at = -1
        # A committed text: it ends in a token that no cell holds yet, behind any cell.
        longer = [*(step.cells[follow % len(step.cells)] if step.cells else ()), 1]
        n_behind, n_read, n_rows = trunk.behind(longer), step.n_read, step.n_rows
        same(trunk.rank(longer, always), longer)
        assert trunk.behind(longer) == 0
        assert trunk.n_cells == len(longer)
        assert trunk.room == 32 - len(longer)
        assert step.n_read - n_read + step.n_rows - n_rows == n_behind + 1
        assert step.cells[-1] == tuple(longer)


def hang(trunk: Trunk, step: ToyStep, text: list[int], ups: list[int]) -> None:
    """Rank a text, then run one token after the other behind it, or behind any cell."""
    same(trunk.rank(text, always), text)
    first = trunk.n_cells - 1
    for up in ups:
        if trunk.room < 2:
            return
        last = trunk.n_cells - 1
        parent = first + up % (last - first + 1) if step.limits.branches else last
        token = up % N_VOCAB
        if (*step.cells[parent], token) not in step.cells:  # siblings differ
            same(trunk.extend([token], [parent]), step.cells[-1])


def test_an_accepted_side_branch_is_moved_and_not_read_again() -> None:
    step = ToyStep(LOGITS, toy_limits(N_VOCAB, 3))
    trunk = Trunk(step)
    trunk.rank([1, 2, 3], always)
    trunk.extend([0, 1], [2, 2])
    trunk.extend([4, 2], [4, 3])
    n_rows = step.n_rows
    assert trunk.behind([1, 2, 3, 1, 4, 0]) == 0
    same(trunk.rank([1, 2, 3, 1, 4, 0], always), [1, 2, 3, 1, 4, 0])
    assert (step.n_kept, step.n_rows - n_rows, step.n_read) == (1, 1, 0)


def test_a_chain_stays_where_it_is() -> None:
    step = ToyStep(LOGITS, toy_limits(N_VOCAB, 3, branches=False))
    trunk = Trunk(step)
    trunk.rank([1, 2, 3], always)
    for cell, token in enumerate([0, 4, 1]):
        trunk.extend([token], [2 + cell])
    assert trunk.behind([1, 2, 3, 0, 4, 2]) == 0
    trunk.rank([1, 2, 3, 0, 4, 2], always)
    assert (step.n_kept, step.n_rows, step.n_read) == (0, 3 + 3 + 1, 0)


def test_reading_stops_between_chunks_and_goes_on_where_it_stopped() -> None:
    step = ToyStep(LOGITS, toy_limits(N_VOCAB, 3, max_rows=2, max_chunk=4))
    trunk = Trunk(step)
    text = [1, 0, 2, 3, 4, 4, 3, 2, 1, 0]
    assert trunk.behind(text) == 9
    assert trunk.rank(text, lambda: False) is None
    assert (trunk.behind(text), step.n_read, step.n_runs) == (5, 4, 0)
    same(trunk.rank(text, always), text)
    assert (step.n_read, step.n_runs, step.n_rows) == (8, 1, 2)


def test_several_rows_are_ranked_at_once() -> None:
    trunk = Trunk(ToyStep(LOGITS, toy_limits(N_VOCAB, 3)))
    trunk.rank([3], always)
    ranked = trunk.extend([1, 2], [0, 0])
    for row, text in enumerate(([3, 1], [3, 2])):
        same(Ranked(ranked.ids[row : row + 1], ranked.logits[row : row + 1], ranked.log_sums[row : row + 1]), text)


@pytest.mark.parametrize("text", [[], [1] * 9])
def test_texts_that_cannot_be_held_are_refused(text: list[int]) -> None:
    trunk = Trunk(ToyStep(LOGITS, toy_limits(N_VOCAB, 3, n_ctx=8)))
    assert trunk.behind(text) == 0
    with pytest.raises(ValueError, match=f"a text of {len(text)} tokens, but the draft holds 1 to 8"):
        trunk.rank(text, always)


@given(st.lists(st.integers(0, 1), max_size=20), st.lists(st.integers(0, 1), max_size=20), st.integers(0, 20))
def test_shared_beginnings(one: list[int], two: list[int], n: int) -> None:
    two = one[:n] + two
    shared = n_shared(one, two)
    assert one[:shared] == two[:shared]
    assert shared == min(len(one), len(two)) or one[shared] != two[shared]


LIMITS = toy_limits(N_VOCAB, 3)
GOOD = fresh([1, 2])


def changed(values: list[list[float]], row: int, place: int, value: float) -> FloatArray:
    found: FloatArray = np.array(values, np.float32)
    found[row, place] = value
    return found


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        (replace(GOOD, ids=GOOD.ids[:1]), "shapes"),
        (replace(GOOD, logits=GOOD.logits[:, :2]), "shapes"),
        (replace(GOOD, log_sums=GOOD.log_sums[:, None]), "shapes"),
        (replace(GOOD, ids=GOOD.ids.astype(np.int64)), "int64"),
        (replace(GOOD, logits=GOOD.logits.astype(np.float64)), "float64"),
        (replace(GOOD, log_sums=GOOD.log_sums.astype(np.float16)), "float16"),
        (replace(GOOD, ids=GOOD.ids + N_VOCAB), "token ids from 5"),
        (replace(GOOD, ids=GOOD.ids - np.int32(9)), "token ids from -9"),
        (replace(GOOD, ids=np.zeros_like(GOOD.ids)), "ranked twice"),
        (replace(GOOD, logits=changed(GOOD.logits.tolist(), 1, 0, np.nan)), "not numbers"),
        (replace(GOOD, logits=changed(GOOD.logits.tolist(), 0, 2, np.nan)), "not numbers"),
        (replace(GOOD, logits=changed(GOOD.logits.tolist(), 0, 0, np.inf)), "not numbers"),
        (replace(GOOD, logits=np.full_like(GOOD.logits, -np.inf)), "not numbers"),
        (replace(GOOD, logits=GOOD.logits[:, ::-1].copy()), "descending"),
        (replace(GOOD, log_sums=np.full_like(GOOD.log_sums, np.nan)), "not numbers"),
        (replace(GOOD, log_sums=GOOD.log_sums - np.float32(9.0)), "log-sum-exp"),
    ],
)
def test_nonsense_is_named(bad: Ranked, what: str) -> None:
    check_ranked(GOOD, 2, LIMITS)
    check_ranked(replace(GOOD, logits=changed(GOOD.logits.tolist(), 0, 2, -np.inf)), 2, LIMITS)
    with pytest.raises(EngineFailure, match=what):
        check_ranked(bad, 2, LIMITS)


def test_after_nonsense_nothing_counts_as_known() -> None:
    step = ToyStep(LOGITS, toy_limits(N_VOCAB, 3))
    trunk = Trunk(step)
    trunk.rank([1, 2, 3], always)
    step.limits = toy_limits(N_VOCAB, 2)
    with pytest.raises(EngineFailure, match="shapes"):
        trunk.rank([1, 2, 3, 4], always)
    step.limits = toy_limits(N_VOCAB, 3)
    assert trunk.behind([1, 2, 3, 4]) == 3
    same(trunk.rank([1, 2, 3, 4], always), [1, 2, 3, 4])
