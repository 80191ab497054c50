"""Which sequence ids name which cached tokens. Pure bookkeeping over libllama's memory calls; computes nothing.

Every id of a sequence names the same cells between two rounds, so a tree needs no copy of its prefix: its nodes carry
the ids of the leaves below them, and only the round's tail is touched afterwards. (Copying the prefix to 16 leaves
costs milliseconds a round at 2,000 tokens, since the library walks all cells.) A chain uses one id.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import llama_cpp
import numpy as np
import numpy.typing as npt

from edgespec.errors import EngineFailure

IntArray = npt.NDArray[np.int32]


@dataclass(slots=True)
class CachedSequence:
    """One sequence's cells: `length` tokens, named by every id in `ids`; ids[0] is the principal one."""

    ids: list[int]
    length: int = 0
    id_array: IntArray = field(init=False)

    def __post_init__(self) -> None:
        self.ids_changed()

    def ids_changed(self) -> None:
        self.id_array = np.array(self.ids, np.int32)


class Cells:
    """libllama's memory, spoken of in terms of CachedSequence."""

    def __init__(self, context: llama_cpp.llama_context_p) -> None:
        self._memory = llama_cpp.llama_get_memory(context)

    def attach(self, sequence: CachedSequence, new_ids: list[int]) -> None:
        """Give all cells of the sequence further ids."""
        for new in new_ids:
            llama_cpp.llama_memory_seq_cp(self._memory, sequence.ids[0], new, -1, -1)
        sequence.ids += new_ids
        sequence.ids_changed()

    def detach(self, sequence: CachedSequence, n_left: int = 1) -> list[int]:
        """Take ids off the sequence's cells until `n_left` are left, the principal one always; returns those taken."""
        extra = sequence.ids[n_left:]
        for old in extra:
            llama_cpp.llama_memory_seq_rm(self._memory, old, -1, -1)
        sequence.ids = sequence.ids[:n_left]
        sequence.ids_changed()
        return extra

    def cut(self, sequence: CachedSequence, length: int) -> None:
        """Drop every cell at or beyond `length`."""
        for one in sequence.ids:
            self._remove(one, length)
        sequence.length = length

    def keep_branch(self, sequence: CachedSequence, winner: int, fork: int, length: int) -> None:
        """After a tree forked at `fork`: keep the branch named `winner` up to `length` under every id, drop the
        others.
        """
        self._remove(winner, length)
        for other in sequence.ids:
            if other != winner:
                self._remove(other, fork)
                if length > fork:
                    llama_cpp.llama_memory_seq_cp(self._memory, winner, other, fork, length)
        sequence.length = length

    def forget(self, sequence: CachedSequence) -> None:
        for one in sequence.ids:
            llama_cpp.llama_memory_seq_rm(self._memory, one, -1, -1)
        sequence.length = 0

    def first_position(self, sequence: CachedSequence) -> int:
        """The lowest position still cached; above 0 once a sliding window has dropped cells; -1 when empty."""
        return int(llama_cpp.llama_memory_seq_pos_min(self._memory, sequence.ids[0]))

    def last_position(self, sequence: CachedSequence) -> int:
        return int(llama_cpp.llama_memory_seq_pos_max(self._memory, sequence.ids[0]))

    def check_end(self, sequence: CachedSequence) -> None:
        """Raises EngineFailure unless the last cell is that of the last token."""
        last = self.last_position(sequence)
        if last != sequence.length - 1:
            raise EngineFailure(
                f"the cache of {sequence.length} tokens ends after {last + 1}",
                "a pass that was broken off left it so",
                "ask again",
            )

    def _remove(self, one: int, start: int) -> None:
        if not llama_cpp.llama_memory_seq_rm(self._memory, one, start, -1):
            raise EngineFailure(
                f"cannot roll the cache back to {start} tokens", "the model's memory refuses it", "use --draft off"
            )
