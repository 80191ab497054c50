"""How far something that takes long has come: a download, a load, a measurement. One callback for all of them.

Contract: a callback that returns False gives the work up; anything else lets it go on. Knows nobody who reports.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from edgespec.errors import EngineFailure


class Stage(str, Enum):
    DOWNLOAD = "download"
    LOAD = "load"
    TUNE = "tune"


@dataclass(frozen=True, slots=True)
class Progress:
    """done and total: bytes of a download; of the other stages the done part, 0 to 1, and 1. doing: in words."""

    stage: Stage
    done: float
    total: float
    doing: str

    @property
    def share(self) -> float:
        """0 to 1."""
        return self.done / self.total if self.total > 0 else 0.0


# Called in the thread that opens or tunes; a defect of it is raised there.
OnProgress = Callable[[Progress], object]


def loading(
    name: str, on_progress: OnProgress | None, on_part: Callable[[float], bool] | None
) -> Callable[[float], bool]:
    """What a load reports its part to, 0 to 1. Both are told; it is False as soon as one of them gives up."""

    def report(part: float) -> bool:
        goes_on = on_progress is None or on_progress(Progress(Stage.LOAD, part, 1.0, f"loading {name}")) is not False
        return (on_part is None or on_part(part)) and goes_on

    return report


class Download:
    """What the library's reporter is made of. Raises EngineFailure out of the fetcher where the callback gives up;
    whole parts stay for the next try.
    """

    def __init__(self, on_progress: OnProgress | None) -> None:
        self._on_progress = on_progress
        self._doing = "downloading"

    def announce(self, line: str) -> None:
        self._doing = line

    def progress(self, n_done: int, n_total: int) -> None:
        if self._on_progress is None:
            return
        if self._on_progress(Progress(Stage.DOWNLOAD, n_done, n_total, self._doing)) is False:
            raise EngineFailure("did not download the model", "the download was given up", "open it again to go on")
