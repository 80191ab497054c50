"""How much of the cores others use: the system's counters, less this process's own time and its children's.

Counters go in ticks of 10 ms (16 on Windows), so a window must last a quarter of a second to be worth reading. Reading
costs about 0.1 ms. Knows no model, and does not decide what to do about it.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import psutil

from edgespec.backend import machine

# Of what the counters show as busy, what is used by this process may be missing by rounding, but not by half.
_COUNTED = 0.5


@dataclass(frozen=True, slots=True)
class Counters:
    """Seconds so far. busy: of all processes on the cores that this one may run on, None where the system does not
    say; own: of this process and its children; wall: of the clock.
    """

    wall: float
    own: float
    busy: float | None


@dataclass(frozen=True, slots=True)
class CoreUse:
    """A window of `seconds`, in cores' worth of time: `own`, and `others`, None where the system does not say.

    n_cores: logical ones that this process may use at a time. Two threads on two halves of one core disturb each other
    less than two that must take turns, so halves count as cores here.
    """

    seconds: float
    n_cores: int
    own: float
    others: float | None

    @property
    def room(self) -> float | None:
        """Cores that others leave."""
        return None if self.others is None else self.n_cores - self.others


def between(before: Counters, after: Counters, n_cores: int, n_counted: int) -> CoreUse:
    """What was used from one reading to the next. n_counted: cores whose time `busy` counts, at least n_cores.

    Of n_counted cores only n_cores may be used at a time where a container has a quota; what others use of the rest
    takes nothing away.
    """
    seconds = after.wall - before.wall
    if seconds <= 0.0:
        return CoreUse(0.0, n_cores, 0.0, None)
    own = max(0.0, after.own - before.own) / seconds  # children that ended may take their time with them
    if before.busy is None or after.busy is None:
        return CoreUse(seconds, n_cores, own, None)
    busy = (after.busy - before.busy) / seconds
    if busy < 0.0 or busy < _COUNTED * min(own, n_counted) - 0.02 / seconds:  # some sandboxes show counters at rest
        return CoreUse(seconds, n_cores, own, None)
    others = min(float(n_counted), max(0.0, busy - own))
    return CoreUse(seconds, n_cores, own, min(float(n_cores), max(0.0, others - (n_counted - n_cores))))


class CoreReader:
    """Reads windows: each call of `use` gives the time since the call before it, the first one since construction.

    further_pids: living children that `own_seconds` does not find by itself; asked at every reading.
    """

    def __init__(self, further_pids: Callable[[], Iterable[int]] = tuple) -> None:
        self._further_pids = further_pids
        self._further: dict[int, float] = {}
        self._forgotten_seconds = 0.0
        self._cores = affinity()
        self._n_cores = n_usable()
        self._before = self._read()

    def use(self) -> CoreUse:
        before, self._before = self._before, self._read()
        return between(before, self._before, self._n_cores, len(self._cores))

    def _read(self) -> Counters:
        return Counters(time.perf_counter(), own_seconds() + self._further_seconds(), busy_seconds(self._cores))

    def _further_seconds(self) -> float:
        """Of the living. Those of the ended are in `own_seconds`, but on Windows, which forgets them, they are kept."""
        before, self._further = self._further, {pid: seconds_of(pid) for pid in self._further_pids()}
        if not hasattr(os, "fork"):
            self._forgotten_seconds += sum(seconds for pid, seconds in before.items() if pid not in self._further)
        return self._forgotten_seconds + sum(self._further.values())


def n_usable() -> int:
    """Logical cores that this process may use at a time: of its affinity, as many as its container's quota pays for."""
    n_cores = len(affinity())
    return min(n_cores, machine.core_quota() or n_cores)


def affinity() -> tuple[int, ...]:
    """The logical cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def own_seconds() -> float:
    """Processor time of this process, of its ended children, and of those that `multiprocessing` runs for it.

    Other children that still run count as others until they end: finding them means reading every process there is.
    """
    times = os.times()
    ended = times.children_user + times.children_system
    return time.process_time() + ended + sum(seconds_of(child.pid) for child in multiprocessing.active_children())


def busy_seconds(cores: tuple[int, ...]) -> float | None:
    """Seconds that these cores were not idle; time that a host took from a virtual machine counts as busy."""
    try:
        per_core = psutil.cpu_times(percpu=True)
    except (OSError, psutil.Error, RuntimeError, ValueError):  # no /proc, or one made up by a sandbox
        return None
    known = [per_core[core] for core in cores if core < len(per_core)]
    if len(known) < len(cores):
        return None
    return sum(_busy(times._asdict()) for times in known)


def _busy(times: dict[str, float]) -> float:
    """Guests are counted in `user`, interrupts on Windows in `system`."""
    return sum(times.get(name, 0.0) for name in ("user", "nice", "system", "irq", "softirq", "steal"))


def seconds_of(pid: int | None) -> float:
    """Processor time of another process; 0 when it is gone."""
    try:
        times = psutil.Process(pid).cpu_times()
    except (psutil.Error, OSError):  # it ended meanwhile, or a sandbox has no /proc
        return 0.0
    return float(times.user + times.system)
