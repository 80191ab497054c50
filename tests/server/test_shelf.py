from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from edgespec.server.shelf import Shelf, n_common


class Ids:
    """Fresh sequences, and which of them were freed."""

    def __init__(self) -> None:
        self._count = itertools.count()
        self.released: list[int] = []

    def shelf(self, n_kept: int = 2) -> Shelf:
        return Shelf(lambda: next(self._count), self.released.append, n_kept)


def test_a_chat_that_goes_on_gets_its_sequence_again() -> None:
    shelf = Ids().shelf()
    first, second = shelf.take([1, 2, 3]), shelf.take([1, 2, 3])
    assert first != second  # one request at a time
    shelf.put_back(first, [1, 2, 3, 4])
    shelf.put_back(second, [1, 2, 9, 9, 9])
    assert shelf.take([1, 2, 3, 4, 5, 6]) == first
    assert shelf.take([1, 2, 9, 9, 9, 9]) == second


def test_a_chat_with_the_same_system_prompt_only_gets_its_own() -> None:
    shelf = Ids().shelf()
    first = shelf.take([1, 1])
    shelf.put_back(first, [1, 1, 5, 6, 7])
    assert shelf.take([1, 1, 8]) != first
    assert shelf.idle == (first,)


def test_the_one_idle_longest_is_freed() -> None:
    ids = Ids()
    shelf = ids.shelf(n_kept=2)
    taken = [shelf.take([i]) for i in range(3)]
    for i in (1, 0, 2):
        shelf.put_back(taken[i], [i])
    assert ids.released == [taken[1]]
    assert shelf.idle == (taken[0], taken[2])


@given(st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 2), max_size=6)), max_size=60))
def test_no_sequence_is_with_two_and_none_is_lost(acts: list[tuple[bool, list[int]]]) -> None:
    ids = Ids()
    shelf = ids.shelf(n_kept=3)
    out: dict[int, list[int]] = {}
    made: set[int] = set()
    for takes, tokens in acts:
        if takes or not out:
            sequence = shelf.take(tokens)
            assert sequence not in out
            out[sequence] = tokens
            made.add(sequence)
        else:
            shelf.put_back(*out.popitem())
        assert made == set(out) | set(shelf.idle) | set(ids.released)
        assert len(shelf.idle) <= 3
    assert len(set(ids.released)) == len(ids.released)


def test_what_both_begin_with() -> None:
    assert [n_common([1, 2], [1, 2, 3]), n_common([1, 2], [1, 3]), n_common([], [1])] == [2, 1, 0]
