"""The tail against a plain twin that searches the whole text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgespec.draft.tail import Tail

texts = st.lists(st.integers(0, 2), max_size=60)


def latest(text: list[int], n: int) -> int:
    """Where the last `n` tokens ended before, the latest place; -1 for nowhere."""
    return next((end for end in range(len(text) - 2, n - 2, -1) if text[end + 1 - n : end + 1] == text[-n:]), -1)


def common(text: list[int], end: int, longest: int) -> int:
    return next((n for n in range(longest) if end - n < 0 or text[end - n] != text[len(text) - 1 - n]), longest)


@given(texts, st.integers(1, 4), st.integers(4, 8), st.integers(0, 20))
def test_a_match_begins_at_the_latest_place_and_goes_on_for_as_long_as_it_does(
    text: list[int], n: int, longest: int, n_prompt: int
) -> None:
    tail = Tail(text[:n_prompt], n, longest)
    end = length = -1
    for i in range(1, len(text) + 1):
        seen = text[:i]
        if i > 1 and length > 0 and seen[end + 1] == seen[-1]:
            end, length = end + 1, length + 1
        else:
            end = latest(seen, n) if i >= n else -1
            length = common(seen, end, longest) if end >= 0 else 0
        if i > n_prompt:
            tail.append(seen[-1:])
        if i >= n_prompt:
            assert (tail.length, tail.n_tokens, tail.last(n)) == (length, i, seen[-n:])
    index: list[int] = []
    assert [tail.read_into(index) for _ in range(2)] == [len(text[n_prompt:]), 0]
    assert index == text[n_prompt:]


def test_of_eight_poor_matches_seven_are_hushed() -> None:
    tail = Tail([1, 2], 1, 8)
    assert [tail.is_hushed() for _ in range(16)] == [*[True] * 7, False] * 2
