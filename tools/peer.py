"""What a peer is: another way to have the same prompt answered, running in a process of its own.

Knows no library, no server and no figures.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import IO, Protocol

import psutil

from edgespec.errors import EdgeSpecError

# A log line can be a whole model description.
_MAX_LINE = 200


class PeerFailed(EdgeSpecError):
    """A peer crashed, hung or answered nonsense. It costs that peer's rows and nothing else."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One greedy answer. tokens: ids without the end token. ended: the model ended it, else the budget did.

    n_prompt: tokens that were read. total_seconds: from the request to the last token, as its sender sees it.
    decode_seconds: the part after the first pass that gave tokens; that pass gave `n_first` of them.
    """

    tokens: tuple[int, ...]
    ended: bool
    n_prompt: int
    n_first: int
    decode_seconds: float
    total_seconds: float

    @property
    def n_generated(self) -> int:
        """The end token counts: it cost what the others cost."""
        return len(self.tokens) + self.ended

    @property
    def n_decoded(self) -> int:
        return max(0, self.n_generated - self.n_first)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Answer:
        """Raises ValueError, KeyError or TypeError for anything that `to_json` did not write."""
        raw = json.loads(text)
        return cls(
            tuple(map(int, raw["tokens"])),
            bool(raw["ended"]),
            int(raw["n_prompt"]),
            int(raw["n_first"]),
            float(raw["decode_seconds"]),
            float(raw["total_seconds"]),
        )


class Peer(Protocol):
    """Used by one thread. Every call may raise PeerFailed; after that only `close` and `start` make sense."""

    @property
    def name(self) -> str: ...

    def start(self) -> None:
        """Load the model; returns when it can answer."""

    def ask(self, prompt: list[int], max_tokens: int) -> Answer:
        """Wait for the answer; nothing of an earlier prompt may be used again."""

    def cpu_seconds(self) -> float:
        """Processor time used since its start, 0 when it does not run."""

    def close(self) -> None:
        """End its processes. May be called at any time, and more than once."""


def without_end(tokens: list[int], end_tokens: frozenset[int]) -> tuple[tuple[int, ...], bool]:
    """The ids before the first end token, and whether there was one."""
    for place, token in enumerate(tokens):
        if token in end_tokens:
            return tuple(tokens[:place]), True
    return tuple(tokens), False


def cpu_seconds(pid: int | None) -> float:
    if pid is None:
        return 0.0
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def last_line(log: IO[bytes]) -> str:
    """Of what an ended process wrote on stderr; "" if that is nothing. A running one shares the file's position."""
    log.seek(0)
    lines = log.read().decode("utf-8", errors="replace").split("\n")
    return next((line.strip()[:_MAX_LINE] for line in reversed(lines) if line.strip()), "")
