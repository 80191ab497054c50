from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.draft.pool import NgramPool

pieces = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3), max_size=40)


def plain(added: list[list[int]], per_key: int, total: int) -> list[tuple[int, ...]]:
    """Oldest first, by definition: one list, searched from the front for whatever is one too many."""
    kept: list[tuple[int, ...]] = []
    for piece in map(tuple, added):
        kept = [one for one in kept if one != piece] + [piece]
        same = [one for one in kept if one[0] == piece[0]]
        if len(same) > per_key:
            kept.remove(same[0])
        elif len(kept) > total:
            kept.remove(kept[0])
    return kept


@given(pieces, st.integers(1, 4), st.integers(1, 9))
def test_the_newest_are_kept_within_both_bounds(added: list[list[int]], per_key: int, total: int) -> None:
    pool = NgramPool(per_key, total)
    for piece in added:
        pool.add(piece)
    kept = plain(added, per_key, total)
    assert len(pool) == len(kept) <= total
    for key in range(4):
        assert pool.after(key) == [piece[1:] for piece in reversed(kept) if piece[0] == key]


@pytest.mark.parametrize(("per_key", "total"), [(0, 9), (9, 0)])
def test_a_pool_without_room_stays_empty(per_key: int, total: int) -> None:
    pool = NgramPool(per_key, total)
    pool.add([1, 2])
    assert len(pool) == 0
    assert pool.after(1) == []


def test_nothing_is_no_piece() -> None:
    with pytest.raises(ValueError, match="first token"):
        NgramPool(1, 1).add([])
