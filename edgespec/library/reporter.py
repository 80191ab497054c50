"""What a download tells the person who waits for it. Draws nothing itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reporter:
    """`announce` gets one finished sentence; `progress` gets (bytes done, bytes in all), often."""

    announce: Callable[[str], None]
    progress: Callable[[int, int], None]


def silent_reporter() -> Reporter:
    return Reporter(announce=lambda _line: None, progress=lambda _done, _total: None)
