"""Facts about this machine: cores, memory, processor name. Reads counters only; starts nothing."""

from __future__ import annotations

import os
import platform

import psutil


def usable_cores() -> int:
    """Cores this process may run on: physical ones where known, never more than its CPU affinity allows."""
    logical = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    physical = psutil.cpu_count(logical=False) or logical
    return max(1, min(physical, logical))


def available_memory_bytes() -> int:
    """Memory that can be had without swapping."""
    return int(psutil.virtual_memory().available)


def describe() -> str:
    """One line that tells machines apart; part of the key of everything measured here."""
    cpu = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        cpu = _linux_cpu_name() or cpu
    return f"{cpu}, {usable_cores()} cores, {platform.system()} {platform.machine()}"


def _linux_cpu_name() -> str:
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return ""
