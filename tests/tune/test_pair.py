"""Timing a draft beside a target, on toys: what is timed and in which order, and that nothing of it stays."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.backend.toy import ToyModel, ToyTarget
from edgespec.records import Records
from edgespec.spec.ports import Capabilities, IntArray
from edgespec.spec.step import Ranked
from edgespec.tune.pair import PairTimes, StepTimes, measure_pair, save_pair, stored_pair, time_beside, time_steps
from tests.draft.toy_step import ToyStep, hashed, toy_limits
from tests.tune.bench import Ticks

LIMITS = Capabilities(n_ctx=200, n_vocab=6, max_rows=12, max_chunk=64, max_leaves=4, can_rollback=True)
LIMITS_OF_DRAFT = toy_limits(6, n_ctx=200, max_chunk=32)
TIMES = PairTimes(
    StepTimes(2, ((64, 0.004), (512, 0.006)), 0.001),
    StepTimes(1, ((64, 0.005),), 0.002),
    1,
    kappa_target=0.03,
    kappa_draft=0.1,
)


class Target(ToyTarget):
    def __init__(self) -> None:
        super().__init__(ToyModel(n_vocab=6, order=3), LIMITS)
        self.n_threads: list[int] = []

    def set_threads(self, n: int, n_batch: int = 0) -> None:
        self.n_threads.append(n)


class Watched(ToyStep):
    """Notes who used it."""

    def __init__(self, n_threads: int, log: list[tuple[int, str]]) -> None:
        super().__init__(hashed(6, 1), LIMITS_OF_DRAFT)
        self.n_threads = n_threads
        self.users: set[int] = set()
        self._log = log

    def run(self, tokens: IntArray, start: int, parents: IntArray | None = None) -> Ranked:
        self.users.add(threading.get_ident())
        return super().run(tokens, start, parents)

    def close(self) -> None:
        self._log.append((self.n_threads, "closed"))
        super().close()


def test_steps_are_timed_at_the_contexts_that_fit() -> None:
    step = ToyStep(hashed(6, 1), LIMITS_OF_DRAFT)
    times = time_steps(step, 2, Ticks(1.0), (64, 128, 512))
    assert (times.n_threads, times.step_seconds) == (2, ((64, 1.0), (128, 1.0)))
    assert times.row_seconds == ((1, 1.0), (2, 1.0), (4, 1.0), (8, 1.0))
    assert times.read_seconds == pytest.approx(1 / 32)
    assert step.n_read == 128


def test_a_draft_with_little_room_is_timed_in_the_middle_of_it() -> None:
    step = ToyStep(hashed(6, 1), toy_limits(6, n_ctx=40))
    assert time_steps(step, 1, Ticks(1.0), (64, 512)).step_seconds == ((20, 1.0),)


def test_steps_between_and_beyond_contexts_lie_on_a_line() -> None:
    times = TIMES.in_turn
    assert [times.step(at) for at in (64, 288, 512, 960)] == pytest.approx([0.004, 0.005, 0.006, 0.008])
    assert times.step(0) == 0.004
    assert TIMES.beside.step(9999) == 0.005
    falling = StepTimes(1, ((64, 0.006), (512, 0.004)), 0.001)
    assert falling.step(9999) == 0.006


def test_a_pair_is_measured_with_all_threads_and_with_those_left() -> None:
    target = Target()
    log: list[tuple[int, str]] = []
    made: list[Watched] = []

    def make(n_threads: int) -> Watched:
        made.append(Watched(n_threads, log))
        return made[-1]

    times = measure_pair(target, make, 4, False, Ticks(1.0))
    assert [one.n_threads for one in made] == [4, 1, 1]
    assert log == [(4, "closed"), (1, "closed"), (1, "closed")]
    assert target.n_threads == [3, 4]
    assert (times.in_turn.n_threads, times.beside.n_threads, times.target_threads) == (4, 1, 3)
    assert all(len(one.users) == 1 for one in made)
    assert made[2].users.isdisjoint({threading.get_ident()})


def test_a_target_on_a_gpu_keeps_its_threads() -> None:
    target = Target()
    assert measure_pair(target, lambda n: Watched(n, []), 4, True, Ticks(1.0)).target_threads == 4


@pytest.mark.parametrize("width", [1, 8])
def test_what_works_at_the_same_speed_beside_each_other_is_not_slower(width: int) -> None:
    target = Target()
    kappa = time_beside(target, lambda: Watched(1, []), _Still(), width)
    assert kappa == (0.0, 0.0)


class _Still:
    """A clock on which every interval takes one second, whoever reads it: threads have one each."""

    def __init__(self) -> None:
        self._own = threading.local()

    def __call__(self) -> float:
        self._own.now = getattr(self._own, "now", 0.0) + 1.0
        return float(self._own.now)


def test_what_a_step_raises_is_raised_here_and_the_draft_closed() -> None:
    class Broken(Watched):
        def run(self, tokens: IntArray, start: int, parents: IntArray | None = None) -> Ranked:
            if len(self.users) and start >= 0 and self.n_runs >= 6:
                raise RuntimeError("no more")
            return super().run(tokens, start, parents)

    log: list[tuple[int, str]] = []
    with pytest.raises(RuntimeError, match="no more"):
        time_beside(Target(), lambda: Broken(1, log), Ticks(1.0))
    assert log == [(1, "closed")]


@given(
    st.lists(st.tuples(st.integers(0, 9999), st.floats(1e-6, 10.0)), min_size=1, max_size=3),
    st.floats(0.0, 5.0),
    st.floats(0.0, 5.0),
)
def test_times_come_back_from_their_text(steps: list[tuple[int, float]], target: float, draft: float) -> None:
    times = PairTimes(StepTimes(1, tuple(steps), 0.1), TIMES.beside, 3, target, draft)
    assert PairTimes.from_text(times.to_text()) == times


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "nonsense", TIMES.to_text().replace("0.004", "-1"), TIMES.to_text().replace("0.004", "NaN")],
)
def test_other_texts_are_no_times(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        PairTimes.from_text(text)


def test_times_are_kept_per_target_draft_build_and_threads(tmp_path: Path) -> None:
    target = tmp_path / "target.gguf"
    target.write_bytes(np.arange(100, dtype=np.int32).tobytes())
    records = Records(tmp_path / "pairs.json")
    save_pair(target, "draft", "build", 2, records, TIMES)
    assert stored_pair(target, "draft", "build", 2, records) == TIMES
    for draft, build, n in (("other", "build", 2), ("draft", "other", 2), ("draft", "build", 1)):
        assert stored_pair(target, draft, build, n, records) is None
    save_pair(target, "draft", "build", 2, records, replace(TIMES, target_threads=7))
    found = stored_pair(target, "draft", "build", 2, records)
    assert found is not None
    assert found.target_threads == 7
