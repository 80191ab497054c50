"""Facts about this machine: cores, memory, processor name. Reads counters only; starts nothing."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import psutil

# Where Linux states what a container may use, whatever the machine has.
CGROUP = Path("/sys/fs/cgroup")


def usable_cores(cgroup: Path = CGROUP) -> int:
    """Cores this process may run on: physical ones where known, no more than its affinity and its container allow."""
    logical = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    physical = psutil.cpu_count(logical=False) or logical
    return max(1, min(physical, logical, core_quota(cgroup) or logical))


def available_memory_bytes(cgroup: Path = CGROUP) -> int:
    """Memory that can be had without swapping, and without being ended by the limit of a container."""
    free = int(psutil.virtual_memory().available)
    limit, used = _number(cgroup / "memory.max"), _number(cgroup / "memory.current")
    return free if limit is None or used is None else max(0, min(free, limit - used + _reclaimable(cgroup)))


def describe() -> str:
    """One line that tells machines apart; part of the key of everything measured here."""
    cpu = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        cpu = _linux_cpu_name() or cpu
    return f"{cpu}, {usable_cores()} cores, {platform.system()} {platform.machine()}"


def core_quota(cgroup: Path = CGROUP) -> int | None:
    """Whole cores' worth of time per period, at least one; None without a quota."""
    words = _text(cgroup / "cpu.max").split()
    if len(words) != 2 or not all(map(str.isdigit, words)) or int(words[1]) == 0:
        return None
    return max(1, int(words[0]) // int(words[1]))


def _reclaimable(cgroup: Path) -> int:
    """File pages that a container counts as used although they can be dropped at any time, a model's file above all."""
    for line in _text(cgroup / "memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if name == "inactive_file" and value.isdigit():
            return int(value)
    return 0


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdigit() else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _linux_cpu_name() -> str:
    for line in _text(Path("/proc/cpuinfo")).splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return ""
