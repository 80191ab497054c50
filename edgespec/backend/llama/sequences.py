"""The sequences that are cached, and how they share libllama's sequence ids. Knows cells, not passes.

A sequence keeps the ids that its widest tree so far needed, because attaching them costs a walk over all cells. When
others run short, ids that nobody needs now are taken back.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from operator import attrgetter

from edgespec.backend.llama.cells import CachedSequence, Cells
from edgespec.errors import EngineFailure
from edgespec.spec.ports import SequenceId

_length = attrgetter("length")


class IdPool:
    """Hands out libllama sequence ids 0 .. n - 1, lowest first."""

    def __init__(self, n: int) -> None:
        self._free = list(range(n))

    def __len__(self) -> int:
        return len(self._free)

    def take(self, n: int) -> list[int]:
        """`n` ids, or EngineFailure and none at all."""
        if n > len(self._free):
            raise EngineFailure(
                "cannot start another sequence", "all sequence ids are in use", "close a conversation and try again"
            )
        taken, self._free = self._free[:n], self._free[n:]
        return taken

    def give_back(self, ids: list[int]) -> None:
        self._free = sorted(self._free + ids)


class Sequences:
    """Cached sequences by their name in the engine."""

    def __init__(self, cells: Cells, n_ids: int) -> None:
        self.cells = cells
        self.pool = IdPool(n_ids)
        self._known: dict[SequenceId, CachedSequence] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __getitem__(self, name: SequenceId) -> CachedSequence:
        return self._known[name]

    def get(self, name: SequenceId) -> CachedSequence | None:
        return self._known.get(name)

    @property
    def n_cells(self) -> int:
        """Cells in use by all sequences together."""
        return sum(map(_length, self._known.values()))

    def open(self, name: SequenceId, locked: Container[SequenceId]) -> CachedSequence:
        """The sequence, empty if it is new. `locked` ones must keep the ids they have. Raises EngineFailure."""
        if name not in self._known:
            self._known[name] = CachedSequence(self._take(1, {}, locked))
        return self._known[name]

    def share(self, n_ids: Mapping[SequenceId, int], locked: Container[SequenceId]) -> None:
        """Let each of these sequences have at least so many ids. Raises EngineFailure when there are too few."""
        for name, needed in n_ids.items():
            one = self.open(name, locked)
            if needed > len(one.ids):
                self.cells.attach(one, self._take(needed - len(one.ids), n_ids, locked))

    def release(self, name: SequenceId) -> None:
        """Forget a sequence, known or not."""
        one = self._known.pop(name, None)
        if one is not None:
            self.cells.forget(one)
            self.pool.give_back(one.ids)

    def clear(self) -> None:
        """Forget them all without touching the library, whose memory is gone."""
        for one in self._known.values():
            self.pool.give_back(one.ids)
        self._known.clear()

    def _take(self, n: int, needed: Mapping[SequenceId, int], locked: Container[SequenceId]) -> list[int]:
        """Free ids, where they do not suffice also those that a sequence has beyond what it needs now."""
        for name, one in self._known.items():
            if len(self.pool) >= n:
                break
            if name not in locked:
                self.pool.give_back(self.cells.detach(one, needed.get(name, 1)))
        return self.pool.take(n)
