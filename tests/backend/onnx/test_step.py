"""Whatever is run, read, kept and rolled back, a row is what the plain twin computes from nothing for its branch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.backend.onnx import OnnxStep, lane
from edgespec.errors import EngineFailure
from edgespec.spec.ports import IntArray
from edgespec.spec.step import Ranked
from tests.backend.onnx.toy_graph import FILE, HEAD, NOT_A_NUMBER, WINDOWED, Toy

Open = Callable[[Toy], OnnxStep]
TOYS = {
    "full": Toy(),
    "windowed": Toy(WINDOWED, seed=1),
    "trimmed": Toy(replace(WINDOWED, rows=(1, 2, 3, 7)), HEAD, seed=2),
}
# Sums of a dozen float32 products, in another order.
TOLERANCE = 2e-4


@pytest.fixture(scope="module")
def open_toy(tmp_path_factory: pytest.TempPathFactory) -> Open:
    """A session of its own for each call over a folder that is written once."""
    folders: dict[int, Path] = {}

    def make(toy: Toy) -> OnnxStep:
        if id(toy) not in folders:
            folders[id(toy)] = toy.write(tmp_path_factory.mktemp("toys") / "toy.step")
        return OnnxStep.open(folders[id(toy)])

    return make


@pytest.fixture(autouse=True)
def _small_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that short texts go through several of them."""
    monkeypatch.setattr(lane, "_BUCKETS", (4, 6))


def ids(*values: int) -> IntArray:
    return np.array(values, dtype=np.int32)


def require_row(toy: Toy, ranked: Ranked, row: int, path: list[int]) -> None:
    logits = toy.logits(path)
    names = np.arange(toy.file.n_vocab) if toy.head_ids is None else toy.head_ids
    by_id = dict(zip(names.tolist(), logits.tolist(), strict=True))
    found = [by_id[token] for token in ranked.ids[row].tolist()]
    assert ranked.logits[row] == pytest.approx(found, abs=TOLERANCE)
    assert found == pytest.approx(sorted(logits.tolist(), reverse=True)[: len(found)], abs=TOLERANCE)
    assert len(set(ranked.ids[row].tolist())) == toy.file.n_ranked
    assert ranked.log_sums[row] == pytest.approx(np.logaddexp.reduce(logits), abs=TOLERANCE)


class Follower:
    """Drives a step model, and knows the tokens on the branch of each cell."""

    def __init__(self, toy: Toy, step: OnnxStep) -> None:
        self.toy, self.step = toy, step
        self.paths: list[list[int]] = []

    def run(self, tokens: IntArray, start: int, parents: IntArray | None = None) -> Ranked:
        ranked = self.step.run(tokens, start, parents)
        self._write(tokens, start, parents)
        for row, path in enumerate(self.paths[start:]):
            require_row(self.toy, ranked, row, path)
        return ranked

    def read(self, tokens: IntArray, start: int) -> None:
        self.step.read(tokens, start)
        self._write(tokens, start, None)

    def keep(self, cells: IntArray, start: int) -> None:
        self.step.keep(cells, start)
        self.paths[start:] = [self.paths[cell] for cell in cells.tolist()]

    def _write(self, tokens: IntArray, start: int, parents: IntArray | None) -> None:
        del self.paths[start:]
        for i, token in enumerate(tokens.tolist()):
            parent = start + i - 1 if parents is None else int(parents[i])
            self.paths.append([*(self.paths[parent] if parent >= 0 else []), token])


def a_token(data: st.DataObject) -> int:
    return data.draw(st.integers(0, FILE.n_vocab - 1).filter(lambda token: token != NOT_A_NUMBER))


def act(data: st.DataObject, follower: Follower) -> None:
    step, n_known = follower.step, len(follower.paths)
    kind = data.draw(st.sampled_from(["run", "run", "tree", "tree", "read", "keep"]))
    start = data.draw(st.integers(max(0, n_known - 8), n_known))
    if kind == "keep":
        follower.keep(a_branch(data, follower, start), start)
        return
    most = step.limits.max_rows if kind != "read" else 20
    n = data.draw(st.integers(1, min(most, step.limits.n_ctx - start))) if start < step.limits.n_ctx else 0
    if n == 0:
        return
    tokens = ids(*(a_token(data) for _ in range(n)))
    if kind == "read":
        follower.read(tokens, start)
    elif kind == "run":
        follower.run(tokens, start)
    else:
        parents = [data.draw(st.integers(max(-1, start + i - 9), start + i - 1)) for i in range(n)]
        follower.run(tokens, start, ids(*parents))


def a_branch(data: st.DataObject, follower: Follower, start: int) -> IntArray:
    """Cells that continue start - 1, each the one before it; there may be none."""
    parents = follower.step._tree.parents
    found: list[int] = []
    before = start - 1
    while True:
        nexts = [cell for cell in range(before + 1, len(parents)) if parents[cell] == before]
        if not nexts or data.draw(st.booleans()):
            return ids(*found)
        before = data.draw(st.sampled_from(nexts))
        found.append(before)


@pytest.mark.parametrize("name", TOYS)
@settings(max_examples=25)
@given(data=st.data())
def test_any_history_gives_what_recomputation_gives(name: str, open_toy: Open, data: st.DataObject) -> None:
    toy = TOYS[name]
    step = open_toy(toy)
    follower = Follower(toy, step)
    for _ in range(data.draw(st.integers(1, 8))):
        act(data, follower)
    if len(follower.paths) < step.limits.n_ctx:
        follower.run(ids(1), len(follower.paths))
    step.close()


@pytest.mark.parametrize("name", TOYS)
def test_a_wrong_cell_shows(name: str, open_toy: Open) -> None:
    """The comparison above tells one wrong token, five places back, from rounding."""
    toy = TOYS[name]
    text = [3, 9, 4, 1, 5, 22]
    ranked = open_toy(toy).run(ids(3), 0)
    require_row(toy, ranked, 0, [3])
    step = open_toy(toy)
    step.read(ids(*text[:-1]), 0)
    ranked = step.run(ids(text[-1]), 5)
    for wrong in ([3, 8, 4, 1, 5, 22], [3, 4, 9, 1, 5, 22], text[1:]):
        with pytest.raises(AssertionError):
            require_row(toy, ranked, 0, wrong)


def test_branches_do_not_see_each_other_and_the_chosen_one_is_kept(open_toy: Open) -> None:
    toy = TOYS["full"]
    follower = Follower(toy, open_toy(toy))
    follower.read(ids(1, 2, 3), 0)
    follower.run(ids(4, 5, 6), 3, ids(2, 2, 2))
    follower.run(ids(8, 9, 10), 6, ids(4, 3, 5))  # 5 8, 4 9, 6 10
    follower.run(ids(11, 12), 9, ids(7, 8))  # 4 9 11, 6 10 12
    follower.keep(ids(3, 7, 9), 3)
    assert follower.paths == [[1], [1, 2], [1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 9], [1, 2, 3, 4, 9, 11]]
    follower.run(ids(13, 14), 6)


def test_padding_and_buckets_change_no_result(open_toy: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Toy(replace(FILE, rows=(1, 2, 3, 4, 9)), seed=4)
    padded = Toy(replace(FILE, rows=(9,)), seed=4)
    found = []
    for toy, buckets in ((rows, (4, 6)), (padded, (4, 6)), (rows, (64, 96)), (padded, (64, 96))):
        monkeypatch.setattr(lane, "_BUCKETS", buckets)
        step = open_toy(toy)
        step.read(ids(*range(8, 30)), 0)
        outcomes = [step.run(ids(1, 2, 3)[:n], 22) for n in (1, 2, 3)]
        found.append(np.concatenate([one.logits for one in outcomes]))
    for other in found[1:]:
        assert other == pytest.approx(found[0], abs=TOLERANCE)


def test_results_are_of_their_own(open_toy: Open) -> None:
    step = open_toy(TOYS["full"])
    first = step.run(ids(1), 0)
    before = (first.ids.copy(), first.logits.copy(), first.log_sums.copy())
    step.run(ids(2), 0)
    for array, copy in zip((first.ids, first.logits, first.log_sums), before, strict=True):
        assert (array == copy).all()
    assert [array.dtype.name for array in before] == ["int32", "float32", "float32"]


def test_a_trimmed_head_speaks_of_the_targets_ids(open_toy: Open) -> None:
    ranked = open_toy(TOYS["trimmed"]).run(ids(1), 0)
    assert set(ranked.ids.ravel().tolist()) <= set(HEAD.tolist())


def test_limits(open_toy: Open) -> None:
    step = open_toy(TOYS["full"])
    limits = step.limits
    assert (limits.n_ctx, limits.n_vocab, limits.n_ranked, limits.max_rows) == (96, 40, 5, 4)
    assert (limits.max_chunk, limits.branches, step.name) == (64, True, "toy")
    step.read(ids(*[1] * 64), 0)
    step.read(ids(*[1] * 32), 64)
    wrong: list[tuple[IntArray, int, IntArray | None]] = [
        (ids(1), 96, None),
        (ids(1, 2), 95, None),
        (ids(1), -1, None),
        (ids(), 3, None),
        (ids(*[1] * 5), 0, None),
        (ids(40), 0, None),
        (ids(-1), 0, None),
        (ids(1), 5, ids(5)),
        (ids(1), 5, ids(-2)),
        (ids(1, 2), 5, ids(4)),
    ]
    for tokens, start, parents in wrong:
        with pytest.raises(ValueError, match=r".+"):
            step.run(tokens, start, parents)
    with pytest.raises(ValueError, match="65 tokens"):
        step.read(ids(*[1] * 65), 0)
    fresh = open_toy(TOYS["full"])
    with pytest.raises(ValueError, match="cell 1, and 0 are known"):
        fresh.run(ids(1), 1)
    fresh.run(ids(1, 2), 0, ids(-1, -1))
    for cells, start in ((ids(1, 0), 0), (ids(0, 1), 0), (ids(2), 0), (ids(), 3)):
        with pytest.raises(ValueError, match=r".+"):
            fresh.keep(cells, start)


@pytest.mark.parametrize("name", TOYS)
def test_what_is_no_number_is_an_error_and_leaves_no_trace(name: str, open_toy: Open) -> None:
    toy = TOYS[name]
    follower = Follower(toy, open_toy(toy))
    follower.read(ids(1, 2, 3), 0)
    for act in (follower.step.run, follower.step.read):
        with pytest.raises(EngineFailure, match="no numbers"):
            act(ids(4, NOT_A_NUMBER), 2)
        assert follower.step._tree.n == 2
        with pytest.raises(ValueError, match="cell 3, and 2 are known"):
            follower.step.run(ids(1), 3)
        follower.read(ids(3), 2)
    follower.run(ids(4, 5), 3)


def test_one_thread_owns_it(open_toy: Open) -> None:
    step = open_toy(TOYS["full"])
    errors: list[BaseException] = []

    def use() -> None:
        try:
            step.run(ids(1), 0)
        except RuntimeError as error:
            errors.append(error)

    def in_a_thread() -> None:
        thread = threading.Thread(target=use)
        thread.start()
        thread.join()

    in_a_thread()  # the first one owns it, wherever it was made
    assert not errors
    with pytest.raises(RuntimeError, match="uses the step model of thread"):
        step.run(ids(1), 0)


def test_closed(open_toy: Open) -> None:
    step = open_toy(TOYS["full"])
    step.run(ids(1), 0)
    step.close()
    step.close()
    with pytest.raises(EngineFailure, match="closed"):
        step.run(ids(1), 0)


def test_a_text_as_long_as_the_cache(open_toy: Open) -> None:
    toy = TOYS["windowed"]
    follower = Follower(toy, open_toy(toy))
    text: npt.NDArray[np.int32] = (np.arange(95, dtype=np.int32) * 11) % 40
    text[text == NOT_A_NUMBER] = 0
    for start in range(0, 95, 19):
        follower.read(text[start : start + 19], start)
    follower.run(ids(5), 95)
    follower.run(ids(5), 2)
