"""Numbers as people read them."""

from __future__ import annotations


def readable_bytes(n_bytes: int) -> str:
    """Decimal units, as disks and download pages count: 98362432 -> "98 MB"."""
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n_bytes >= size:
            value = n_bytes / size
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
    return f"{n_bytes} bytes"


def readable_count(count: int) -> str:
    """134515008 -> "135M", 1100048384 -> "1.1B"."""
    for unit, size in (("T", 10**12), ("B", 10**9), ("M", 10**6), ("K", 10**3)):
        if count >= size:
            value = count / size
            return f"{value:.1f}{unit}" if value < 10 else f"{value:.0f}{unit}"
    return str(count)
