"""The bookkeeping of ids over cells, on the memory of a real model."""

from __future__ import annotations

import llama_cpp
import pytest

from edgespec.backend.llama.cells import CachedSequence, Cells
from edgespec.backend.llama.target import LlamaTarget
from edgespec.errors import EngineFailure
from tests.backend.conftest import SETTINGS, OpenTarget, Toys
from tests.backend.llama.driving import ids, text_of, tree, verify
from tools.make_toy_model import Kind


class Memory:
    """A target whose memory is looked at directly: which positions each id names, from first to last."""

    def __init__(self, target: LlamaTarget, n_tokens: int) -> None:
        target.extend(0, ids(text_of(1, n_tokens)))
        self.target = target
        self.cells: Cells = target._cells
        self.sequence: CachedSequence = target._sequences[0]
        self._memory = llama_cpp.llama_get_memory(target._context)

    def span(self, one: int) -> tuple[int, int]:
        low = int(llama_cpp.llama_memory_seq_pos_min(self._memory, one))
        return low, int(llama_cpp.llama_memory_seq_pos_max(self._memory, one))


@pytest.fixture
def memory(toys: Toys, open_target: OpenTarget) -> Memory:
    return Memory(open_target(toys.path()), 20)


def test_attached_ids_name_the_same_cells(memory: Memory) -> None:
    memory.cells.attach(memory.sequence, [3, 5])
    assert memory.sequence.ids == [0, 3, 5]
    assert memory.sequence.id_array.tolist() == [0, 3, 5]
    assert [memory.span(one) for one in (0, 3, 5, 1)] == [(0, 19), (0, 19), (0, 19), (-1, -1)]


def test_detached_ids_name_nothing(memory: Memory) -> None:
    memory.cells.attach(memory.sequence, [3, 5, 6])
    assert memory.cells.detach(memory.sequence, 3) == [6]
    assert memory.cells.detach(memory.sequence) == [3, 5]
    assert memory.sequence.id_array.tolist() == [0]
    assert [memory.span(one) for one in (0, 3, 5, 6)] == [(0, 19), (-1, -1), (-1, -1), (-1, -1)]


def test_a_cut_shortens_every_id(memory: Memory) -> None:
    memory.cells.attach(memory.sequence, [3])
    memory.cells.cut(memory.sequence, 12)
    assert memory.sequence.length == 12
    assert (memory.span(0), memory.span(3)) == ((0, 11), (0, 11))
    assert (memory.cells.first_position(memory.sequence), memory.cells.last_position(memory.sequence)) == (0, 11)


@pytest.mark.parametrize(("winner", "length"), [(0, 21), (0, 22), (0, 23), (1, 22), (1, 23), (1, 24)])
def test_a_kept_branch_is_under_every_id(winner: int, length: int, memory: Memory) -> None:
    """A pass reads position 20; then id 0 goes on to 22, id 1 to 23 on a branch of its own."""
    verify(memory.target, [9], tree([1, 2, 3, 4, 5], [-1, 0, -1, 2, 3]), 6)
    assert (memory.span(0), memory.span(1)) == ((0, 22), (0, 23))
    memory.cells.keep_branch(memory.sequence, winner, fork=21, length=length)
    assert memory.sequence.length == length
    assert (memory.span(0), memory.span(1)) == ((0, length - 1), (0, length - 1))


def test_a_forgotten_sequence_is_empty_under_every_id(memory: Memory) -> None:
    memory.cells.attach(memory.sequence, [3])
    memory.cells.forget(memory.sequence)
    assert memory.sequence.length == 0
    assert memory.cells.first_position(memory.sequence) == -1
    assert (memory.span(0), memory.span(3)) == ((-1, -1), (-1, -1))


def test_a_memory_that_cannot_go_back_says_so(toys: Toys, open_target: OpenTarget) -> None:
    memory = Memory(open_target(toys.path(Kind.MAMBA)), 20)
    memory.cells.cut(memory.sequence, 20)
    with pytest.raises(EngineFailure, match="cannot roll the cache back to 19 tokens"):
        memory.cells.cut(memory.sequence, 19)
    assert memory.span(0) == (19, 19)


def test_a_window_forgets_its_first_positions(toys: Toys, open_target: OpenTarget) -> None:
    target = open_target(toys.path(Kind.GEMMA3), SETTINGS.windowed())
    memory = Memory(target, 200)
    assert memory.cells.first_position(memory.sequence) == 0
    for _ in range(2):
        target.extend(0, ids(text_of(2, 256)))
    assert memory.cells.last_position(memory.sequence) == 711
    assert 0 < memory.cells.first_position(memory.sequence) <= 712 - 32
