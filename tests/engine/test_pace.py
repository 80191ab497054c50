"""When threads are taken back and given again, on synthetic machines with a clock of their own."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.backend.cores import CoreUse
from edgespec.backend.settings import LlamaSettings
from edgespec.engine.levels import Level, ladder
from edgespec.engine.pace import LATE, Pace
from edgespec.spec.cost import CostTable
from edgespec.tune.tuning import Tuned

TWO = CostTable((0, 1000), (1, 2, 4), ((0.010, 0.012, 0.015), (0.020, 0.022, 0.025)))
ONE = CostTable((0, 1000), (1, 2, 4), ((0.014, 0.017, 0.022), (0.028, 0.031, 0.036)))
TUNED = Tuned(LlamaSettings(n_threads=2), TWO, ONE)


def pace(n_threads: int = 2, tuned: Tuned | None = TUNED) -> Pace:
    return Pace(ladder(n_threads, 0, tuned))


def use(others: float | None, own: float = 2.0, seconds: float = 0.25, n_cores: int = 2) -> CoreUse:
    return CoreUse(seconds, n_cores, own, others)


# -- the levels ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_threads", "n_batch", "expected"),
    [
        (1, 0, [(1, 0)]),
        (1, 1, [(1, 1)]),
        (2, 0, [(2, 0), (1, 0)]),
        (1, 2, [(1, 2), (1, 0)]),
        (3, 0, [(3, 0), (1, 0)]),
        (4, 0, [(4, 0), (2, 0), (1, 0)]),
        (8, 16, [(8, 16), (4, 8), (1, 0)]),
        (1, 8, [(1, 8), (1, 4), (1, 0)]),
    ],
)
def test_the_steps_are_all_threads_half_of_them_and_one(
    n_threads: int, n_batch: int, expected: list[tuple[int, int]]
) -> None:
    assert [(level.n_threads, level.n_batch) for level in ladder(n_threads, n_batch, TUNED)] == expected
    assert [(level.n_threads, level.n_batch) for level in ladder(n_threads, n_batch)] == expected


def test_each_step_has_its_prices() -> None:
    first, half, last = ladder(4, 0, TUNED)
    assert (first.table, last.table) == (TWO, ONE)
    assert half.table is not None
    assert half.table.seconds[0][0] == pytest.approx(math.sqrt(0.010 * 0.014))
    assert all(level.table is None for level in ladder(4))


# -- limits -------------------------------------------------------------------------------------------------------


def test_a_pass_may_take_some_times_what_the_table_says_for_it() -> None:
    one = pace()
    assert one.verify_limit(1, 0) == pytest.approx(LATE * 0.010 * (1 + 256 / 1000))
    assert one.verify_limit(1, 100) == one.verify_limit(1, 255) < one.verify_limit(1, 256)
    assert one.verify_limit(3, 0) == one.verify_limit(4, 0) > one.verify_limit(2, 0)
    assert one.verify_limit(8, 0) == pytest.approx(2 * one.verify_limit(4, 0))  # beyond the table in proportion


def test_chunks_are_held_to_what_chunks_took_and_before_any_to_the_widest_pass() -> None:
    one = pace()
    assert one.extend_limit(256, 0) == pytest.approx(64 * one.verify_limit(4, 0))
    one.extended(256, 0, 0.2)
    assert one.extend_limit(256, 0) == pytest.approx(LATE * 0.2)
    assert one.extend_limit(512, 0) == pytest.approx(LATE * 0.4)
    assert one.extend_limit(100, 0) == pytest.approx(LATE * 0.2)  # it takes less than the whole one did
    assert one.extend_limit(2, 0) == pytest.approx(LATE * 0.2)


def test_without_a_table_the_fastest_of_the_last_few_counts() -> None:
    one = pace(tuned=None)
    assert one.verify_limit(1, 0) == one.extend_limit(16, 0) == math.inf
    for seconds in (0.9, 0.02, 0.03, 0.04):
        one.verified(1, 0, seconds)
    assert one.verify_limit(1, 5000) == pytest.approx(LATE * 0.02)
    assert one.verify_limit(2, 0) == pytest.approx(LATE * 0.04)
    one.verified(1, 0, 0.05)
    one.verified(1, 0, 0.06)
    assert one.verify_limit(1, 0) == pytest.approx(LATE * 0.03)  # a longer context takes longer, and that is no fault


def test_threads_that_have_not_been_seen_at_work_are_judged_by_others() -> None:
    one = pace(4, tuned=None)
    one.verified(1, 0, 0.02)
    passes(one, 0.050, n=5)
    one.used(use(2.0, n_cores=4))
    assert one.status.n_threads == 2
    assert one.verify_limit(1, 0) == pytest.approx(LATE * 0.05 * 2)
    started_low = pace(tuned=None)
    started_low.used(use(1.0))
    started_low.verified(1, 0, 0.03)
    raise_again(started_low)
    assert started_low.verify_limit(1, 0) == pytest.approx(LATE * 0.03)


def test_the_shortest_passes_have_time_to_lose_a_core_for_a_moment() -> None:
    one = pace(tuned=None)
    one.verified(1, 0, 0.0001)
    assert one.verify_limit(1, 0) == 0.02


def test_one_thread_is_never_given_up() -> None:
    alone = pace(1)
    assert alone.frozen
    assert alone.verify_limit(1, 0) == alone.extend_limit(256, 0) == math.inf
    down = pace()
    down.gave_up(0.04)
    assert down.verify_limit(1, 0) == down.extend_limit(256, 0) == math.inf


def test_a_limit_that_was_wrong_is_raised() -> None:
    one = pace()
    before = one.verify_limit(1, 0)
    one.gave_up(before)
    one.repeated(seconds=before * 1.5, limit=before, own_seconds=before * 1.45)
    raise_again(one)
    assert one.verify_limit(1, 0) == pytest.approx(2 * before)


def test_a_limit_is_not_wrong_when_the_repeated_pass_was_disturbed_too() -> None:
    one = pace()
    before = one.verify_limit(1, 0)
    one.gave_up(before)
    one.repeated(seconds=before * 1.5, limit=before, own_seconds=before * 0.6)
    raise_again(one)
    assert one.verify_limit(1, 0) == pytest.approx(before)


def raise_again(one: Pace) -> None:
    for _ in range(40):
        one.used(use(0.0, own=1.0))
    assert not one.stepped_down


# -- down ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_threads", [2, 4, 16])
def test_a_pass_that_is_given_up_leads_to_one_thread_at_once(n_threads: int) -> None:
    one = pace(n_threads)
    one.gave_up(0.04)
    assert one.level == one.lowest
    assert (one.status.n_threads, one.status.n_wanted) == (1, n_threads)
    assert (one.status.n_aborted, one.status.n_steps_down) == (1, 1)


def test_taken_cores_that_slow_passes_down_take_a_step() -> None:
    one = pace()
    passes(one, 0.025)
    one.used(use(0.6))
    assert one.status.n_threads == 1
    assert one.status.taken == 0.6
    assert one.status.n_aborted == 0


def passes(one: Pace, seconds: float, n: int = 10) -> None:
    for _ in range(n):
        one.verified(1, 0, seconds)


@pytest.mark.parametrize(
    ("others", "seconds"),
    [
        (0.6, 0.0125),  # the cores are taken and it does not show: halves of cores, or a moment that has passed
        (0.6, 0.0180),  # slower, but one thread would be slower still
        (0.2, 0.0300),  # slow, but nobody takes the cores: a hot machine
        (None, 0.0300),
    ],
)
def test_threads_stay_when_fewer_would_not_help(others: float | None, seconds: float) -> None:
    one = pace()
    passes(one, seconds)
    one.used(use(others))
    assert not one.stepped_down


def test_without_prices_slower_than_before_is_slow() -> None:
    one = pace(tuned=None)
    passes(one, 0.010)
    one.used(use(0.0))
    passes(one, 0.014)
    one.used(use(0.6))
    assert not one.stepped_down
    one.verified(1, 0, 0.010)
    passes(one, 0.030, n=3)
    one.used(use(0.6))
    assert one.stepped_down


def test_before_anything_is_known_of_passes_the_counters_decide() -> None:
    taken, free = pace(tuned=None), pace(tuned=None)
    taken.used(use(1.0, own=0.5))
    free.used(use(0.0, own=0.5))
    assert taken.stepped_down
    assert not free.stepped_down


def test_a_large_machine_goes_by_halves() -> None:
    one = pace(8)
    passes(one, 0.030)
    one.used(use(3.0, own=8.0, n_cores=8))
    assert one.status.n_threads == 4
    passes(one, 0.030)
    one.used(use(3.0, own=4.0, n_cores=8))  # four have room beside three
    assert one.status.n_threads == 4
    passes(one, 0.030)
    one.used(use(6.0, own=4.0, n_cores=8))
    assert one.status.n_threads == 1


# -- up -----------------------------------------------------------------------------------------------------------


def test_threads_come_back_when_the_cores_have_been_free_for_a_while() -> None:
    one = pace()
    one.gave_up(0.04)
    one.used(use(0.9, own=1.0))
    one.used(use(0.1, own=1.0))
    assert one.stepped_down
    one.used(use(0.4, own=1.0))  # not yet
    one.used(use(0.0, own=1.0))
    assert one.stepped_down
    one.used(use(0.0, own=1.0))
    assert not one.stepped_down


def test_after_a_long_rest_the_counters_tell_of_all_of_it() -> None:
    one = pace()
    one.gave_up(0.04)
    one.used(use(0.0, own=0.0, seconds=60.0))
    assert not one.stepped_down


def test_a_thread_that_does_not_get_its_core_is_not_alone_whatever_the_counters_say() -> None:
    one = pace()
    one.gave_up(0.04)
    for _ in range(20):
        one.verified(1, 0, 0.24)
        one.used(use(0.0, own=0.5))
    assert one.stepped_down
    for _ in range(4):
        one.verified(1, 0, 0.24)
        one.used(use(0.0, own=0.96))
    assert not one.stepped_down


def test_a_system_that_does_not_count_is_asked_by_trying_seldom() -> None:
    one = pace()
    one.gave_up(0.04)
    n_windows = 0
    while one.stepped_down:
        one.used(use(None, own=1.0))
        n_windows += 1
    assert n_windows == 8


def test_only_half_the_threads_come_back_when_there_is_no_room_for_all() -> None:
    one = pace(8)
    one.gave_up(0.04)
    for _ in range(3):
        one.used(use(3.0, own=1.0, n_cores=8))
    assert one.status.n_threads == 4
    for _ in range(3):
        one.used(use(0.0, own=4.0, n_cores=8))
    assert one.status.n_threads == 8


def test_tries_that_fail_are_made_less_often_and_one_that_holds_makes_up_for_them() -> None:
    one = pace()
    waits = []
    one.gave_up(0.04)
    for _ in range(5):
        waits.append(windows_until_raised(one))
        passes(one, 0.010, n=3)
        one.gave_up(0.04)
    assert waits == [2, 4, 8, 8, 8]
    windows_until_raised(one)
    passes(one, 0.010, n=150)
    one.used(use(0.0))
    one.gave_up(0.04)
    assert windows_until_raised(one) == 2


def windows_until_raised(one: Pace) -> int:
    n = 0
    while one.stepped_down:
        one.used(use(0.0, own=1.0))
        n += 1
    return n


def test_tries_that_cost_much_wait_in_proportion() -> None:
    one = pace()
    one.gave_up(2.0)
    assert windows_until_raised(one) == 2  # this was the beginning, and no try
    one.gave_up(2.0)
    assert windows_until_raised(one) == 80


def test_more_threads_than_cores_are_had_by_who_wants_them() -> None:
    one = pace(4, tuned=None)
    one.used(use(0.0))
    assert not one.stepped_down
    one.gave_up(0.04)
    assert windows_until_raised(one) == 2
    assert one.status.n_threads == 4


# -- exact answers ------------------------------------------------------------------------------------------------


def test_restricted_to_nothing_all_threads_are_back_and_stay() -> None:
    one = pace(4)
    one.gave_up(0.04)
    one.restrict(())
    assert not one.stepped_down
    assert one.frozen
    assert one.verify_limit(1, 0) == one.extend_limit(64, 0) == math.inf
    passes(one, 5.0)
    one.used(use(2.0))
    assert not one.stepped_down
    assert one.status.taken == 2.0
    one.unrestrict()
    assert not one.frozen
    assert one.verify_limit(1, 0) < math.inf


def test_restricted_to_some_counts_the_others_are_skipped() -> None:
    one = pace(4)
    one.restrict((4, 1))
    passes(one, 0.030)
    one.used(use(2.0, n_cores=4))
    assert one.status.n_threads == 1
    for _ in range(3):
        one.used(use(2.0, own=1.0, n_cores=4))
    assert one.status.n_threads == 1
    one.unrestrict()
    one.used(use(2.0, own=1.0, n_cores=4))
    one.used(use(2.0, own=1.0, n_cores=4))
    assert one.status.n_threads == 2


@pytest.mark.parametrize(
    ("counts", "frozen"), [((2, 1), True), ((4, 1), True), ((2, 4), True), ((4, 2, 1), False), ((), True)]
)
def test_counts_that_do_not_agree_with_all_of_the_first_level_are_of_no_use(
    counts: tuple[int, ...], frozen: bool
) -> None:
    """Two threads for single rows and four for wider passes, and one for both."""
    one = Pace((Level(2, 4), Level(1)))
    one.gave_up(0.1)
    one.restrict(counts)
    assert one.frozen == frozen
    assert one.stepped_down != frozen


def test_without_one_thread_no_pass_is_given_up_but_half_of_them_may_do() -> None:
    one = pace(4)
    one.restrict((4, 2))
    assert one.verify_limit(1, 0) == math.inf
    passes(one, 0.030)
    one.used(use(2.0, n_cores=4))
    assert one.status.n_threads == 2
    passes(one, 0.030)
    one.used(use(4.0, n_cores=4))
    assert one.status.n_threads == 2


# -- a machine ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Machine:
    """Two cores and some programs that never rest. Two spinning threads that must share a core take a second a pass;
    programs and threads share the cores evenly. `counts` is False for a system without counters.
    """

    pace: Pace
    counts: bool = True
    n_busy: int = 0
    now: float = 0.0
    log: list[tuple[float, int, float]] = field(default_factory=list)
    _read_at: float = 0.0
    _own: float = 0.0
    _others: float = 0.0

    def run(self, seconds: float) -> int:
        """Passes of one row for so long; returns how many."""
        end, n = self.now + seconds, 0
        while self.now < end:
            self._window()
            self._pass()
            n += 1
        return n

    def _window(self) -> None:
        if self.now - self._read_at >= 0.25:
            span = self.now - self._read_at
            self.pace.used(CoreUse(span, 2, self._own / span, self._others / span if self.counts else None))
            self._read_at, self._own, self._others = self.now, 0.0, 0.0

    def _pass(self) -> None:
        limit = self.pace.verify_limit(1, 0)
        seconds = self._seconds()
        if seconds > limit:
            self._spend(limit + 0.025)
            self.pace.gave_up(limit + 0.025)
            seconds, before = self._seconds(), self._own
            self._spend(seconds)
            self.pace.repeated(seconds, limit, self._own - before)
        else:
            self._spend(seconds)
        self.pace.verified(1, 0, seconds)

    def _seconds(self) -> float:
        n_threads = self.pace.status.n_threads
        if n_threads == 2:
            return 0.010 if self.n_busy == 0 else 1.0
        return 0.014 / min(1.0, 2.0 / (1 + self.n_busy))

    def _spend(self, seconds: float) -> None:
        n_threads = self.pace.status.n_threads
        share = min(1.0, 2.0 / (n_threads + self.n_busy))
        self._own += seconds * n_threads * share
        self._others += seconds * self.n_busy * share
        self.now += seconds
        self.log.append((self.now, n_threads, seconds))


@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("tuned", [TUNED, None])
@pytest.mark.parametrize(("n_busy", "least"), [(1, 0.8), (2, 0.3)])
def test_a_busy_program_costs_little_and_full_speed_is_back_soon(
    counts: bool, tuned: Tuned | None, n_busy: int, least: float
) -> None:
    machine = Machine(pace(tuned=tuned), counts)
    machine.run(3.0)
    assert not machine.pace.stepped_down
    machine.n_busy = n_busy
    started, n = machine.now, 0
    while n < 512:
        n += machine.run(0.001)
    assert 512 * 0.014 / (machine.now - started) >= least
    machine.n_busy = 0
    machine.run(3.0)
    assert not machine.pace.stepped_down
    n_steps = machine.pace.status.n_steps_down
    assert machine.run(10.0) >= 990
    assert machine.pace.status.n_steps_down == n_steps


@given(
    st.lists(st.tuples(st.sampled_from([0, 0, 1, 2, 3]), st.floats(0.05, 4.0)), min_size=1, max_size=12),
    st.booleans(),
    st.booleans(),
)
def test_whatever_others_do_no_more_is_lost_than_tries_cost(
    phases: list[tuple[int, float]], counts: bool, measured: bool
) -> None:
    """Against one thread all the time; each onset may cost one pass that is given up, and the tries a tenth."""
    machine = Machine(pace(tuned=TUNED if measured else None), counts)
    machine.run(1.0)
    for n_busy, seconds in phases:
        machine.n_busy = n_busy
        started, n_before = machine.now, machine.pace.status.n_aborted
        alone = 0.014 / min(1.0, 2.0 / (1 + n_busy))
        n = machine.run(seconds)
        n_aborted = machine.pace.status.n_aborted - n_before
        assert n * alone >= 0.9 * (machine.now - started) - 0.1 - 0.075 * n_aborted
        assert n_aborted <= 1 + (machine.now - started) / 0.5
    machine.n_busy = 0
    machine.run(3.0)
    assert not machine.pace.stepped_down


@given(st.lists(st.tuples(st.floats(0.0, 3.0) | st.none(), st.floats(0.0, 3.0), st.floats(1e-4, 9.0)), max_size=60))
def test_numbers_without_sense_break_nothing(numbers: list[tuple[float | None, float, float]]) -> None:
    one = pace(4, None)
    for others, own, seconds in numbers:
        if seconds > one.verify_limit(1, 0):
            one.gave_up(seconds)
            one.repeated(seconds, 0.1, own)
        one.verified(1, 0, seconds)
        one.used(use(others, own, seconds, n_cores=4))
        assert one.level in ladder(4)
        assert one.status.n_aborted <= len(numbers)
        assert one.verify_limit(1, 0) > 0.0
        assert one.level != one.lowest or one.verify_limit(1, 0) == math.inf


def test_a_level_knows_its_counts() -> None:
    assert Level(2, 4).counts == {2, 4}
    assert Level(2).counts == {2}
    assert (Level(2, 4).most, Level(2).most, Level(2, 1).most) == (4, 2, 2)


def test_what_others_did_before_the_answer_began_takes_no_threads() -> None:
    one = Pace(ladder(2))
    one.used(use(1.9, own=0.0, seconds=30.0))
    assert not one.stepped_down
    one.used(use(1.9, own=0.0, seconds=0.3))
    assert one.stepped_down
