"""What tuning and its child processes say to each other: one JSON line per order, one per report.

Plain data; knows no process and no model.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import Enum


class Task(str, Enum):
    """READ: one chunk of text. PASS: one verify pass of which nothing is kept. CLASSES: the width probe."""

    READ = "read"
    PASS = "pass"
    CLASSES = "classes"


@dataclass(frozen=True, slots=True)
class Order:
    """n: for READ the tokens the cache shall hold in the end, for PASS the rows. chunk: most tokens to read at once.
    seconds: what CLASSES may spend. n_threads: of this order; n_batch: of passes of two rows and more, 0 for as many,
    where the probe makes passes of every width.
    """

    task: Task
    n: int = 0
    n_threads: int = 1
    chunk: int = 512
    seconds: float = 0.0
    n_batch: int = 0

    def to_line(self) -> str:
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_line(cls, line: str) -> Order:
        raw = json.loads(line)
        return cls(
            Task(raw["task"]),
            int(raw["n"]),
            int(raw["n_threads"]),
            int(raw["chunk"]),
            float(raw["seconds"]),
            int(raw["n_batch"]),
        )


@dataclass(frozen=True, slots=True)
class Report:
    """What an order gave. The first report of a child, after loading, has no order.

    length: tokens now in the cache. widest: rows that a pass may have. classes: () where widths could
    not be compared in full. refused: an ordinary error instead of an answer.
    """

    seconds: float = 0.0
    length: int = 0
    widest: int = 1
    classes: tuple[tuple[int, ...], ...] = ()
    refused: str = ""

    def to_line(self) -> str:
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_line(cls, line: str) -> Report:
        """Raises ValueError for a line that is no report."""
        try:
            raw = json.loads(line)
            classes = tuple(tuple(map(int, one)) for one in raw["classes"])
            return cls(float(raw["seconds"]), int(raw["length"]), int(raw["widest"]), classes, str(raw["refused"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"no report: {line.strip()[:80]!r}") from error
