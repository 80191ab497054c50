"""Rounds in a row in which nobody had anything to propose, remembered to be settled together.

After a pass of the target little of our own code is left in the processor's caches, so that every line costs ten times
what it does in a loop: such rounds, which are most, only note a few numbers each. Contract: sums and medians of what is
handed in; knows no prices.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from statistics import median

from edgespec.spec.ports import SequenceId

# A look at the load is taken of so many rounds together: their median moves less than any of them.
_LOOK = 4

# Rounds until they are settled anyway, so that prices and threads stay fresh.
MOST_RESTS = 8


@dataclass(slots=True)
class Rests:
    """Of one batch, at one width. seconds and draft_seconds: as in a ledger's entry, summed."""

    sequences: tuple[SequenceId, ...] = ()
    n_rows: int = 0
    context: int = 0
    n_emitted: int = 0
    seconds: float = 0.0
    draft_seconds: float = 0.0
    passes: list[float] = field(default_factory=list)
    overheads: list[float] = field(default_factory=list)

    @property
    def n_rounds(self) -> int:
        return len(self.passes)

    @property
    def is_full(self) -> bool:
        return len(self.passes) >= MOST_RESTS

    def fits(self, sequences: tuple[SequenceId, ...], n_rows: int) -> bool:
        """May a round of these be added?"""
        return not self.passes or (self.sequences == sequences and self.n_rows == n_rows)

    def add(
        self,
        sequences: tuple[SequenceId, ...],
        n_rows: int,
        context: int,
        n_emitted: int,
        seconds: float,
        pass_seconds: float,
        draft_seconds: float,
    ) -> None:
        self.sequences, self.n_rows, self.context = sequences, n_rows, context
        self.n_emitted += n_emitted
        self.seconds += seconds
        self.draft_seconds += draft_seconds
        self.passes.append(pass_seconds)
        self.overheads.append(max(0.0, seconds - draft_seconds - pass_seconds))

    def looks(self) -> Iterator[tuple[float, float]]:
        """Seconds of a pass and of the rest of its round, for every few rounds."""
        for start in range(0, len(self.passes), _LOOK):
            yield _middle(self.passes, start), _middle(self.overheads, start)


def _middle(values: Seq[float], start: int) -> float:
    return median(values[start : start + _LOOK])
