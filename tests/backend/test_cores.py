"""Windows of core use from made-up counters, and the real counters while this process works and rests."""

from __future__ import annotations

import math
import multiprocessing
import os
import subprocess
import sys
import time
from dataclasses import replace
from typing import NamedTuple

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.backend import cores, machine
from edgespec.backend.cores import CoreReader, Counters, affinity, between, busy_seconds, own_seconds

START = Counters(wall=100.0, own=5.0, busy=70.0)


def after(seconds: float, own: float, busy: float | None) -> Counters:
    assert START.busy is not None
    return Counters(START.wall + seconds, START.own + own, None if busy is None else START.busy + busy)


@pytest.mark.parametrize(
    ("seconds", "own", "busy", "expected"),
    [
        (1.0, 1.0, 2.0, (1.0, 1.0)),
        (0.5, 0.5, 0.75, (1.0, 0.5)),
        (0.25, 0.0, 0.5, (0.0, 2.0)),
        (0.25, 0.0, 0.75, (0.0, 2.0)),  # ticks that were counted late
        (0.25, 0.26, 0.25, (1.04, 0.0)),  # ticks that are still missing
        (1.0, -0.5, 1.0, (0.0, 1.0)),  # a child ended and took its time with it
    ],
)
def test_what_is_not_our_own_is_others(seconds: float, own: float, busy: float, expected: tuple[float, float]) -> None:
    use = between(START, after(seconds, own, busy), 2, 2)
    assert (use.own, use.others) == pytest.approx(expected)
    assert use.room == pytest.approx(2 - expected[1])
    assert use.seconds == seconds


@pytest.mark.parametrize(
    ("before", "later"),
    [
        (START, after(1.0, 1.0, None)),
        (replace(START, busy=None), after(1.0, 1.0, 1.0)),
        (START, after(1.0, 1.0, 0.0)),  # counters at rest while this process worked
        (START, after(1.0, 1.0, -5.0)),
        (START, after(0.0, 0.0, 0.0)),
        (START, after(-1.0, 0.0, 1.0)),
    ],
)
def test_counters_that_do_not_count_say_nothing(before: Counters, later: Counters) -> None:
    use = between(before, later, 2, 2)
    assert use.others is None
    assert use.room is None


def test_an_idle_machine_is_no_broken_counter() -> None:
    assert between(START, after(1.0, 0.0, 0.0), 2, 2).room == 2.0


@pytest.mark.parametrize(("others", "left"), [(0.0, 2.0), (6.0, 2.0), (7.0, 1.0), (8.0, 0.0)])
def test_a_quota_is_not_taken_from_while_other_cores_are_free(others: float, left: float) -> None:
    """Two cores' worth of time, on any of eight."""
    assert between(START, after(1.0, 0.0, others), 2, 8).room == left


@given(
    st.integers(1, 64),
    st.integers(0, 64),
    st.floats(0.01, 100.0),
    st.floats(0.0, 7000.0),
    st.one_of(st.none(), st.floats(0.0, 7000.0)),
)
def test_use_stays_within_the_machine(
    n_cores: int, n_more: int, seconds: float, own: float, busy: float | None
) -> None:
    use = between(START, after(seconds, own, busy), n_cores, n_cores + n_more)
    assert use.own >= 0.0
    assert use.others is None or 0.0 <= use.others <= n_cores
    assert math.isfinite(use.own)


def test_this_machine_is_read_in_windows() -> None:
    reader = CoreReader()
    for use in (reader.use(), reader.use()):
        assert 1 <= use.n_cores <= (os.cpu_count() or 1)
        assert use.seconds > 0.0
        assert use.own >= 0.0
        assert use.others is None or 0.0 <= use.others <= use.n_cores


def test_own_work_is_own() -> None:
    before = own_seconds()
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    assert own_seconds() - before >= 0.03


def _work(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def test_the_work_of_children_is_own_too_while_they_run_and_after() -> None:
    before = own_seconds()
    child = multiprocessing.get_context("spawn").Process(target=_work, args=(0.1,))
    child.start()
    while child.is_alive():
        child.join(0.02)
        own_seconds()
    if hasattr(os, "fork"):  # elsewhere the time of ended children is lost
        assert own_seconds() - before >= 0.08
    child.close()


BUSY = """
import time
until = time.process_time() + 0.2
while time.process_time() < until:
    pass
print(flush=True)
input()
"""


def test_children_known_by_their_number_are_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alive and ended, also where the system forgets the ended."""
    pids: list[int] = []
    reader = CoreReader(lambda: pids)
    for fork in (True, False):
        if not fork:
            monkeypatch.delattr(os, "fork", raising=False)
            monkeypatch.setattr(cores, "own_seconds", lambda: 0.0)
        reader.use()
        child = subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        pids.append(child.pid)
        assert child.stdout is not None
        child.stdout.readline()
        alive = reader.use()
        assert alive.own * alive.seconds >= 0.15
        child.communicate(b"\n")
        pids.clear()
        assert reader.use().own >= 0.0
        before = reader._before.own
        reader.use()
        assert reader._before.own >= before >= 0.15


def test_a_sandbox_without_processes_counts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_pid: int | None) -> None:
        raise FileNotFoundError("/proc")

    monkeypatch.setattr(psutil, "Process", refuse)
    assert cores.seconds_of(1) == 0.0


def test_usable_are_those_of_the_affinity_within_the_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "core_quota", lambda: None)
    assert cores.n_usable() == len(affinity())
    monkeypatch.setattr(machine, "core_quota", lambda: 1)
    assert cores.n_usable() == 1


def test_the_cores_are_those_of_the_affinity() -> None:
    allowed = affinity()
    assert list(allowed) == sorted(set(allowed))
    assert len(allowed) <= (os.cpu_count() or 1)
    one, every = busy_seconds(allowed[:1]), busy_seconds(allowed)
    assert one is not None
    assert every is not None
    assert one <= every


def test_cores_that_the_system_does_not_list_are_unknown() -> None:
    assert busy_seconds((10_000,)) is None


@pytest.mark.parametrize("error", [PermissionError("no"), psutil.AccessDenied(1), ValueError("?"), RuntimeError("?")])
def test_a_system_without_counters_is_unknown(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(percpu: bool) -> None:
        assert percpu
        raise error

    monkeypatch.setattr(psutil, "cpu_times", refuse)
    assert busy_seconds(affinity()) is None
    reader = CoreReader()
    assert reader.use().others is None


class _Windows(NamedTuple):
    user: float
    system: float
    idle: float
    interrupt: float
    dpc: float


class _Mac(NamedTuple):
    user: float
    nice: float
    system: float
    idle: float


class _Linux(NamedTuple):
    user: float
    nice: float
    system: float
    idle: float
    iowait: float
    irq: float
    softirq: float
    steal: float
    guest: float
    guest_nice: float


@pytest.mark.parametrize(
    ("times", "busy"),
    [
        (_Windows(1, 2, 50, 0.5, 0.5), 3.0),
        (_Mac(1, 2, 3, 50), 6.0),
        (_Linux(1, 2, 3, 50, 40, 4, 5, 6, 1, 1), 21.0),
    ],
)
def test_every_system_counts_in_its_own_fields(times: NamedTuple, busy: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu: [times, times] if percpu else times)
    assert busy_seconds((0, 1)) == 2 * busy
    assert busy_seconds((1,)) == busy


def test_a_child_that_has_just_ended_counts_nothing() -> None:
    assert cores.seconds_of(2**30) == 0.0
