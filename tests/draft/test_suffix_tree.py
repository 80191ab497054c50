"""Both indexes against a plain search for every suffix."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.draft.suffix_tree import MAX_MATCH, MAX_PLACES, GrowingIndex, Places, SealedIndex, query_of
from tests.draft.fake import prompt_of
from tests.draft.test_automaton import fibonacci, texts


def places_of(suffix: Sequence[int], text: Sequence[int]) -> list[int]:
    """Where `suffix` ends in `text`, latest first."""
    n = len(suffix)
    return [end for end in range(len(text) - 1, n - 2, -1) if list(text[end + 1 - n : end + 1]) == list(suffix)]


def longest_in(text: Sequence[int], others: Sequence[Sequence[int]]) -> tuple[int, int]:
    """The plain twin: length of the longest suffix of `text` in the other texts, and how often it stands there."""
    for length in range(min(MAX_MATCH, len(text)), 0, -1):
        n_places = sum(len(places_of(text[len(text) - length :], other)) for other in others)
        if n_places:
            return length, n_places
    return 0, 0


def longest_before(text: Sequence[int]) -> tuple[int, list[int]]:
    """The plain twin for a text's own earlier places."""
    for length in range(min(MAX_MATCH, len(text) - 1), 0, -1):
        found = places_of(text[len(text) - length :], text[:-1])
        if found:
            return length, found
    return 0, []


def checked(found: Places | None, text: Sequence[int]) -> tuple[int, list[int]]:
    if found is None:
        return 0, []
    suffix = list(text[len(text) - found.length :])
    assert all(list(found.text[end + 1 - found.length : end + 1]) == suffix for end in found.ends)
    return found.length, found.ends


@settings(deadline=None)
@given(texts)
def test_a_growing_text_knows_all_places_of_its_longest_suffix(text: list[int]) -> None:
    index = GrowingIndex()
    for i, token in enumerate(text):
        index.extend([token])
        length, ends = longest_before(text[: i + 1])
        assert checked(index.longest(), text[: i + 1]) == (length, ends[:MAX_PLACES])
    assert index.text == text


@settings(deadline=None)
@given(texts, st.integers(0, 40))
def test_pieces_and_whole_texts_give_the_same(text: list[int], cut: int) -> None:
    pieces = GrowingIndex(text[:cut])
    pieces.extend(text[cut:])
    assert checked(pieces.longest(), text) == checked(GrowingIndex(text).longest(), text)
    assert len(pieces) == len(text)


def test_a_long_match_is_found_behind_many_short_ones() -> None:
    """The last three tokens stand in more places than are looked at, the last ten in one, before all of these."""
    long = list(range(100, 110))
    text = [*long, *[1, *long[-3:]] * (2 * MAX_PLACES), *long]
    assert checked(GrowingIndex(text).longest(), text) == (10, [9])


def test_only_the_latest_places_are_looked_at() -> None:
    text = [t for i in range(100) for t in (1000 + i, 5)]
    length, ends = checked(GrowingIndex(text).longest(), text)
    assert length == 1
    assert ends == list(range(197, 197 - 2 * MAX_PLACES, -2))


@pytest.mark.parametrize("ids", [[0, 0, 0], [(1 << 20) + 1, 1, 1 << 21], [2**31 - 1, 0, 2**31 - 1]])
def test_ids_whose_keys_collide_are_told_apart(ids: list[int]) -> None:
    for text in ([*ids, 1, *ids], [*reversed(ids), *ids], [ids[-1], 7, *ids]):
        assert checked(GrowingIndex(text).longest(), text) == longest_before(text)


@settings(deadline=None)
@given(st.lists(texts, max_size=4), texts)
def test_sealed_texts_give_the_longest_suffix_and_count_all_its_places(
    others: list[list[int]], text: list[int]
) -> None:
    found = SealedIndex([prompt_of(other) for other in others]).longest(query_of(text))
    length, ends = checked(found, text)
    n_places = longest_in(text, others)[1]
    assert length == longest_in(text, others)[0]
    assert len(set(ends)) == len(ends) <= MAX_PLACES
    assert ends == sorted(ends, reverse=True)
    assert len(ends) == n_places if n_places <= MAX_PLACES else len(ends) > MAX_PLACES // 2


@settings(deadline=None)
@given(st.lists(texts, max_size=4))
def test_the_texts_can_be_had_back(others: list[list[int]]) -> None:
    index = SealedIndex([prompt_of(other) for other in others])
    assert [text.tolist() for text in index.texts] == others
    assert index.n_tokens == sum(map(len, others))


@settings(deadline=None)
@given(st.lists(texts, max_size=4))
def test_the_gate_is_open_for_every_pair_inside_a_text(others: list[list[int]]) -> None:
    index = SealedIndex([prompt_of(other) for other in others])
    for other in others:
        assert all(index.may_hold(before, last) for before, last in pairwise(other))


def test_the_gate_is_closed_for_most_other_pairs() -> None:
    rng = random.Random(5)
    index = SealedIndex([prompt_of([rng.randrange(50_000) for _ in range(4000)])])
    n_open = sum(index.may_hold(rng.randrange(50_000), rng.randrange(50_000)) for _ in range(2000))
    assert n_open < 2000 / 6


def test_nothing_follows_across_the_border_of_two_texts() -> None:
    found = SealedIndex([prompt_of([1, 2, 3]), prompt_of([4, 5])]).longest(query_of([1, 2, 3]))
    assert found is not None
    assert found.text[found.ends[0] + 1] < 0


@pytest.mark.parametrize("text", [[7] * 3000, fibonacci(3000), [i % 13 for i in range(3000)]], ids=["run", "fib", "13"])
def test_texts_that_go_round_in_circles(text: list[int]) -> None:
    assert checked(GrowingIndex(text).longest(), text)[0] == MAX_MATCH
    index = SealedIndex([prompt_of(text)])
    length, ends = checked(index.longest(query_of(text)), text)
    assert length == MAX_MATCH
    assert MAX_PLACES // 2 < len(ends) <= MAX_PLACES
    # An even sample of them all, not the nearest ones.
    assert min(ends) < 1000
    assert max(ends) > 2000


@pytest.mark.parametrize("before", [0, 50_000])
def test_many_places_on_one_side_of_where_the_text_would_stand(before: int) -> None:
    """All 500 places continue to the left with a larger token than the text does, or all with a smaller one."""
    index = SealedIndex([prompt_of([t for i in range(500) for t in (1000 + i, 7, 8)])])
    length, ends = checked(index.longest(query_of([before, 7, 8])), [before, 7, 8])
    assert length == 2
    assert min(ends) < 100
    assert max(ends) > 1400


def test_negative_tokens_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        SealedIndex([np.array([1, -1], np.int32)])
