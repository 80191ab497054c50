"""How much of the cores other programs took between two moments. Reads the system's counters."""

from __future__ import annotations

import os
from dataclasses import dataclass

import psutil

# Beyond this share of the cores times are no longer those of the machine, so they are not kept.
CONTENDED_SHARE = 0.15


@dataclass(frozen=True, slots=True)
class Cpu:
    """CPU seconds since boot. busy: of all programs, with what a hypervisor took away. own: of this process. wall: a
    moment on a clock.
    """

    busy: float
    own: float
    wall: float


def read_cpu(wall: float) -> Cpu:
    times = psutil.cpu_times()._asdict()
    busy = sum(times.get(kind, 0.0) for kind in ("user", "nice", "system", "irq", "softirq", "steal"))
    return Cpu(busy, sum(os.times()[:2]), wall)


def foreign_share(before: Cpu, after: Cpu, children_seconds: float, n_cores: int) -> float:
    """Part of `n_cores` that neither this process nor its children used, 0 to 1; 0 over no time."""
    wall = (after.wall - before.wall) * n_cores
    others = (after.busy - before.busy) - (after.own - before.own) - children_seconds
    return min(1.0, max(0.0, others / wall)) if wall > 0.0 else 0.0
