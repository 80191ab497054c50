"""A paced target gives what the plain one gives, whatever the machine does; only the clock tells them apart."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.backend.settings import LlamaSettings
from edgespec.backend.toy import ToyModel
from edgespec.engine.levels import ladder
from edgespec.engine.pace import PaceStatus
from edgespec.engine.paced import PacedTarget, cores_taken, paced
from edgespec.spec.cost import CostTable
from edgespec.spec.ports import Capabilities, Commit, FloatArray, VerifyRequest
from edgespec.spec.tree import chain
from edgespec.tune.tuning import Tuned
from tests.engine.toy_engine import EngineTarget, Interrupted, Pass
from tests.engine.toy_machine import ALONE_FACTOR, PASS_SECONDS, ROW_SECONDS, ToyMachine

N_VOCAB = 8
BONUS = 3
MODEL = ToyModel(n_vocab=N_VOCAB, seed=1)
LIMITS = Capabilities(n_ctx=4000, n_vocab=N_VOCAB, max_rows=8, max_chunk=8, max_leaves=4, can_rollback=True)
WIDTHS = (1, 2, 4, 8)
SECONDS = tuple(PASS_SECONDS + ROW_SECONDS * (width - 1) for width in WIDTHS)
TUNED = Tuned(
    LlamaSettings(n_threads=2),
    CostTable((0,), WIDTHS, (SECONDS,)),
    CostTable((0,), WIDTHS, (tuple(ALONE_FACTOR * one for one in SECONDS),)),
)


def machine() -> ToyMachine:
    return ToyMachine(EngineTarget(MODEL, LIMITS))


def step(target: PacedTarget | EngineTarget, guesses: Sequence[int] = (), width: int = 0) -> FloatArray:
    """A pass over the token BONUS and guesses, of which the first half is accepted, before BONUS; all its rows."""
    draft = chain(np.array(guesses, np.int32), [1.0] * len(guesses))
    request = VerifyRequest(0, np.array([BONUS], np.int32), draft, False)
    rows = target.verify([request], width or 1 + len(guesses))[0]
    copied = np.array([rows.logits(row) for row in range(1 + len(guesses))], np.float32)
    n_kept = len(draft) // 2
    tokens = np.array([*guesses[:n_kept], BONUS], np.int32)
    target.commit(0, Commit(np.arange(n_kept, dtype=np.int32), tokens))
    return copied


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, N_VOCAB - 1), min_size=1, max_size=7),
            st.booleans(),
            st.sampled_from([0, 0, 1, 2]),
            st.sampled_from([0.0, 0.3, 3.0]),
        ),
        max_size=30,
    ),
    st.booleans(),
)
def test_a_paced_target_is_the_plain_one(turns: list[tuple[list[int], bool, int, float]], measured: bool) -> None:
    one, plain = machine(), EngineTarget(MODEL, LIMITS)
    target = one.paced(TUNED if measured else None)
    for tokens, reads, n_busy, rest in turns:
        one.n_busy = n_busy
        one.rest(rest)
        target.settle()
        if reads:
            target.extend(1, np.array(tokens, np.int32))
            plain.extend(1, np.array(tokens, np.int32))
        else:
            assert step(target, tokens).tobytes() == step(plain, tokens).tobytes()
        assert [target.length(s) for s in (0, 1)] == [plain.length(s) for s in (0, 1)]
    assert one.target.passes == plain.passes
    assert target.capabilities == plain.capabilities


def test_a_late_pass_is_given_up_and_repeated_at_once_with_one_thread_and_the_same_width() -> None:
    one = machine()
    target = one.paced(TUNED)
    step(target, [1, 2], width=4)
    one.n_busy = 1
    step(target, [1, 2], width=4)
    assert [(n, late) for n, _, late in one.log] == [(2, False), (2, True), (1, False)]
    assert one.log[1][1] == pytest.approx(4 * one.log[0][1])
    assert [entry.width for entry in one.target.passes] == [4, 4]
    assert one.target.limit_seconds == math.inf
    assert target.status.n_aborted == 1
    assert target.status.n_threads == 1


def test_a_late_chunk_is_repeated_too() -> None:
    one = machine()
    target = one.paced()
    target.extend(0, np.array([1, 2, 3], np.int32))
    one.n_busy = 1
    target.extend(0, np.array([4, 5, 6], np.int32))
    assert [(n, late) for n, _, late in one.log] == [(2, False), (2, True), (1, False)]
    assert target.length(0) == 6


def test_threads_come_back_between_rounds_and_prices_follow() -> None:
    one, prices = machine(), list[CostTable]()
    target = one.paced(TUNED, prices.append)
    one.n_busy = 1
    step(target)
    assert prices == []  # not in the middle of a round
    target.settle()
    assert prices == [TUNED.alone]
    one.n_busy = 0
    for _ in range(60):
        target.settle()
        step(target)
    assert prices == [TUNED.alone, TUNED.table]
    assert (one.target.n_threads, target.status.n_threads) == (2, 2)
    assert one.target.limit_seconds < math.inf


def test_the_counters_are_read_four_times_a_second_at_most() -> None:
    one = machine()
    n_read = 0

    def read_use() -> object:
        nonlocal n_read
        n_read += 1
        return read()

    read = one.read_use
    one.read_use = read_use  # type: ignore[method-assign,assignment]
    target = one.paced(TUNED)
    for _ in range(100):
        target.settle()
        step(target)
    assert n_read == 1 + int(one.now / 0.26)


def test_restricted_to_nothing_all_threads_are_there_at_once_and_wait() -> None:
    one = machine()
    target = one.paced(TUNED)
    one.n_busy = 1
    step(target)
    target.restrict(())
    assert one.target.n_threads == 2
    step(target)
    assert one.log[-1] == (2, 100 * PASS_SECONDS, False)
    target.restrict((2, 1))
    step(target)
    assert one.log[-1][0] == 1
    target.unrestrict()
    assert target.status.n_aborted == 2


def test_an_interrupt_is_passed_on_also_out_of_a_repeated_pass() -> None:
    one = machine()
    target = one.paced(TUNED)
    one.n_busy = 1
    work = one.target.before_pass
    assert work is not None

    def interrupted_when_repeated(entry: Pass) -> None:
        if one.target.n_threads == 1:
            target.interrupt()
        work(entry)

    one.target.before_pass = interrupted_when_repeated
    with pytest.raises(Interrupted):
        step(target)
    assert target.interrupted is Interrupted
    one.target.before_pass = work
    target.resume()
    step(target)
    assert one.log[-1][0] == 1


def test_other_settings_begin_with_all_their_threads() -> None:
    one = machine()
    target = one.paced()
    one.n_busy = 1
    step(target)
    step(target)
    target.retune(ladder(4, 8, TUNED))
    assert (one.target.n_threads, one.target.n_threads_batch) == (4, 8)
    target.retune(ladder(1))
    assert one.target.n_threads == 1
    assert target.notice() is None


@pytest.mark.parametrize(
    ("settings", "is_paced"),
    [
        (LlamaSettings(n_threads=2), True),
        (LlamaSettings(n_threads=1, n_threads_batch=2), True),
        (LlamaSettings(n_threads=1), False),
        (LlamaSettings(n_threads=8).on_gpu(), False),
        (LlamaSettings(n_threads=8, n_gpu_layers=4), False),
    ],
)
def test_where_there_is_nothing_to_step_down_from_it_costs_nothing(settings: LlamaSettings, is_paced: bool) -> None:
    assert (paced(EngineTarget(MODEL, LIMITS), settings, TUNED) is not None) == is_paced


def test_the_real_counters_drive_it() -> None:
    target = paced(EngineTarget(MODEL, LIMITS), LlamaSettings(n_threads=2))
    assert target is not None
    target.settle()
    assert target.status.n_cores >= 1


def test_the_rest_is_the_target_s_own() -> None:
    one = machine()
    target = one.paced()
    target.extend(7, np.array([1, 2, 3], np.int32))
    assert target.rewind(7, 1) == one.target.length(7) == target.length(7) == 1
    target.release(7)
    assert one.target.length(7) == 0
    target.close()
    assert one.target.closed.is_set()


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (PaceStatus(1, 2, 2, 0.96, 1, 1), "other programs use 1.0 of 2 cores: running with 1 thread instead of 2"),
        (PaceStatus(4, 8, 8, 3.0, 1, 1), "other programs use 3.0 of 8 cores: running with 4 threads instead of 8"),
        (PaceStatus(1, 2, 2, None, 1, 1), "other programs take the cores: running with 1 thread instead of 2"),
        (PaceStatus(1, 2, 0, 0.0, 1, 1), "other programs take the cores: running with 1 thread instead of 2"),
    ],
)
def test_the_notice_says_who_uses_what(status: PaceStatus, message: str) -> None:
    notice = cores_taken(status)
    assert notice.code == "cores-taken"
    assert notice.message == f"{message} until they are free"


def test_other_settings_in_the_middle_of_an_exact_answer_keep_its_threads() -> None:
    one = ToyMachine(EngineTarget(MODEL, LIMITS))
    target = one.paced(TUNED)
    target.restrict(())
    target.retune(ladder(2, 0, TUNED))
    one.n_busy = 2
    for _ in range(3):
        one.rest(0.3)
        target.settle()
    assert target.status.n_threads == 2
    target.unrestrict()
    one.rest(0.3)
    target.settle()
    assert target.status.n_threads == 1
