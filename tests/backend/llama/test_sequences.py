"""Sequence ids among sequences, on a real memory: nothing leaks, nobody loses what it needs."""

from __future__ import annotations

import random

import pytest

from edgespec.backend.llama.sequences import IdPool, Sequences
from edgespec.errors import EngineFailure
from tests.backend.conftest import SETTINGS, OpenTarget, Toys

N_IDS = 6


@pytest.fixture
def sequences(toys: Toys, open_target: OpenTarget) -> Sequences:
    return Sequences(open_target(toys.path(), SETTINGS)._cells, N_IDS)


def n_used(sequences: Sequences, names: range = range(20)) -> int:
    return sum(len(one.ids) for name in names if (one := sequences.get(name)))


def test_a_pool_gives_the_lowest_ids_or_none() -> None:
    pool = IdPool(4)
    assert pool.take(3) == [0, 1, 2]
    with pytest.raises(EngineFailure, match="all sequence ids are in use; close a conversation"):
        pool.take(2)
    assert len(pool) == 1
    pool.give_back([1])
    assert pool.take(2) == [1, 3]
    assert pool.take(0) == []


def test_a_sequence_keeps_the_ids_it_once_needed(sequences: Sequences) -> None:
    sequences.share({1: 3}, ())
    sequences.share({1: 1}, ())
    assert sequences[1].ids == [0, 1, 2]
    assert sequences[1].id_array.tolist() == [0, 1, 2]
    assert len(sequences.pool) == 3


def test_a_tree_without_leaves_needs_one_id(sequences: Sequences) -> None:
    sequences.share({1: 0}, ())
    assert sequences[1].ids == [0]


def test_idle_sequences_give_back_what_others_need(sequences: Sequences) -> None:
    sequences.share({1: 3}, ())
    sequences.share({2: 3}, ())
    sequences.share({3: 2}, ())
    assert [len(sequences[name].ids) for name in (1, 2, 3)] == [1, 3, 2]
    assert sequences[3].ids == [1, 2]


def test_sequences_of_the_same_pass_give_back_what_they_do_not_need(sequences: Sequences) -> None:
    sequences.share({1: 5}, ())
    sequences.share({1: 2, 2: 4}, ())
    assert [len(sequences[name].ids) for name in (1, 2)] == [2, 4]


def test_locked_sequences_keep_their_ids(sequences: Sequences) -> None:
    sequences.share({1: 5}, ())
    sequences.open(2, ())
    with pytest.raises(EngineFailure):
        sequences.open(3, {1})
    assert sequences.get(3) is None
    assert len(sequences[1].ids) == 5
    sequences.open(3, ())
    assert len(sequences[1].ids) == 1


@pytest.mark.parametrize("seed", range(5))
def test_any_order_of_calls_loses_no_id(seed: int, sequences: Sequences) -> None:
    """As long as each of n sequences asks for no more than an n-th of the ids, it gets them."""
    rng = random.Random(seed)
    for _ in range(300):
        name = rng.randrange(N_IDS)
        if rng.random() < 0.3:
            sequences.release(name)
        else:
            sequences.open(name, ())
            known = [other for other in range(N_IDS) if sequences.get(other)]
            some = rng.sample(known, rng.randrange(1, len(known) + 1))
            wanted = {other: rng.randrange(1, N_IDS // len(known) + 1) for other in some}
            sequences.share(wanted, ())
            assert all(len(sequences[other].ids) >= n for other, n in wanted.items())
        used = [one for other in range(N_IDS) if (s := sequences.get(other)) for one in s.ids]
        assert len(set(used)) == len(used)
        assert len(used) + len(sequences.pool) == N_IDS
    sequences.clear()
    assert (len(sequences), len(sequences.pool)) == (0, N_IDS)


def test_cells_are_counted(sequences: Sequences) -> None:
    sequences.open(1, ()).length = 5
    sequences.open(2, ()).length = 7
    assert sequences.n_cells == 12
    sequences.release(1)
    sequences.release(1)
    assert sequences.n_cells == 7
