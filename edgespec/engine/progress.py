"""How far something that takes long has come: a download, a load, a measurement. One callback for all of them.

Contract: a callback that returns False gives the work up, which raises GivenUp; anything else lets it go on. Knows
nobody who reports.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from edgespec.errors import GivenUp


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


def loading(name: str, on_progress: OnProgress | None) -> Callable[[float], bool]:
    """What a load reports its part to, 0 to 1. Raises GivenUp out of the load."""

    def report(part: float) -> bool:
        if on_progress is not None and on_progress(Progress(Stage.LOAD, part, 1.0, f"loading {name}")) is False:
            raise GivenUp(f"did not load the model {name}", "loading was given up", "open it again to load it")
        return True

    return report


class Download:
    """What the library's reporter is made of. Raises GivenUp out of the fetcher; whole parts stay for the next try."""

    def __init__(self, on_progress: OnProgress | None) -> None:
        self._on_progress = on_progress
        self._doing = "downloading"

    def announce(self, line: str) -> None:
        self._doing = line

    def progress(self, n_done: int, n_total: int) -> None:
        if self._on_progress is None:
            return
        if self._on_progress(Progress(Stage.DOWNLOAD, n_done, n_total, self._doing)) is False:
            raise GivenUp("did not download the model", "the download was given up", "open it again to go on")
