"""The automaton against a plain search, and its growth."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.draft.automaton import Match, SuffixAutomaton

small_texts = st.integers(1, 4).flatmap(lambda n: st.lists(st.integers(0, n - 1), max_size=40))
periodic_texts = st.tuples(small_texts, st.lists(st.integers(0, 2), min_size=1, max_size=5), st.integers(1, 8)).map(
    lambda parts: parts[0] + parts[1] * parts[2]
)
texts = st.one_of(small_texts, periodic_texts)


def earlier_ends(text: Sequence[int], length: int) -> list[int]:
    """Where the text's last `length` tokens end earlier, latest first."""
    last = len(text) - 1
    suffix = text[last + 1 - length :]
    return [end for end in range(last - 1, length - 2, -1) if text[end + 1 - length : end + 1] == suffix]


def longest_earlier(text: Sequence[int]) -> int:
    """The plain twin: try every length."""
    return next((n for n in range(len(text) - 1, 0, -1) if earlier_ends(text, n)), 0)


def extended(text: Sequence[int], end: int, n: int) -> list[int]:
    """The plain twin of `follow`: copy token by token from a text that grows by its own copy."""
    grown = list(text)
    for source in range(end + 1, end + 1 + n):
        grown.append(grown[source])
    return grown[len(text) :]


def fibonacci(n: int) -> list[int]:
    before, word = [0], [0, 1]
    while len(word) < n:
        before, word = word, word + before
    return word[:n]


def growing_texts(n: int) -> dict[str, list[int]]:
    rng = random.Random(3)
    return {
        "one token": [7] * n,
        "period 13": [i % 13 for i in range(n)],
        "two tokens": [rng.randrange(2) for _ in range(n)],
        "fibonacci": fibonacci(n),
        "vocabulary": [rng.randrange(50_000) for _ in range(n)],
        "half then other": [0] * (n // 2) + [1] * (n - n // 2),
        "same block": [rng.randrange(100) for _ in range(n // 10)] * 10,
    }


@settings(deadline=None)
@given(texts)
def test_every_prefix_has_the_longest_match_and_a_true_place(text: list[int]) -> None:
    automaton = SuffixAutomaton()
    for i, token in enumerate(text):
        automaton.append(token)
        length = longest_earlier(text[: i + 1])
        assert automaton.match_length == length
        if length:
            assert automaton.match_end in earlier_ends(text[: i + 1], length)
        else:
            assert automaton.match_end == -1


@settings(deadline=None)
@given(texts, st.integers(0, 40))
def test_pieces_and_single_tokens_build_the_same(text: list[int], cut: int) -> None:
    whole, pieces, single = SuffixAutomaton(text), SuffixAutomaton(text[:cut]), SuffixAutomaton()
    pieces.extend(text[cut:])
    for token in text:
        single.append(token)
    for other in (pieces, single):
        assert (other.match_length, other.match_end, len(other)) == (whole.match_length, whole.match_end, len(whole))
        assert (other.n_states, other.n_transitions, other.n_steps) == (
            whole.n_states,
            whole.n_transitions,
            whole.n_steps,
        )
        assert list(other.text) == text


@settings(deadline=None)
@given(texts, st.integers(0, 60))
def test_the_continuation_is_a_token_by_token_copy(text: list[int], n: int) -> None:
    automaton = SuffixAutomaton(text)
    expected = extended(text, automaton.match_end, n) if automaton.match_length else []
    assert automaton.continuation(n) == expected


@settings(deadline=None)
@given(texts)
def test_rivals_are_other_followers_of_the_same_match(text: list[int]) -> None:
    automaton = SuffixAutomaton(text)
    rivals = automaton.rivals(limit=50)
    length = automaton.match_length
    followers = {text[end + 1] for end in earlier_ends(text, length)} if length else set()
    if length:
        assert {text[end] for end in rivals} == followers - {automaton.continuation(1)[0]}
    else:
        assert not rivals
    for end in rivals:
        assert end - 1 in earlier_ends(text, length)
    assert rivals == sorted(rivals, reverse=True)


@settings(deadline=None)
@given(texts, texts)
def test_find_gives_the_longest_suffix_inside_the_text(text: list[int], tokens: list[int]) -> None:
    def places(length: int) -> list[int]:
        suffix = tokens[len(tokens) - length :]
        return [i + length - 1 for i in range(len(text) - length + 1) if text[i : i + length] == suffix]

    match = SuffixAutomaton(text).find(tokens)
    assert match.length == next((n for n in range(len(tokens), 0, -1) if places(n)), 0)
    assert match.end in places(match.length) if match.length else match == Match(0, -1)


def test_the_latest_of_several_places_is_preferred() -> None:
    automaton = SuffixAutomaton([1, 2, 3, 50, 1, 2, 3, 60, 1, 2, 3])
    assert (automaton.match_length, automaton.match_end) == (3, 6)
    assert automaton.continuation(3) == [60, 1, 2]
    assert automaton.rivals(limit=8) == [3]


def test_a_rival_is_never_the_last_token_itself() -> None:
    """The period's end has outrun the positions of short matches: the match of 1 is an old one, followed by 2."""
    automaton = SuffixAutomaton([1, 2] * 9 + [1, 1])
    assert automaton.continuation(1) == [2]
    assert automaton.rivals(limit=8) == []


def test_a_short_match_inside_a_longer_one_is_brought_up_to_date() -> None:
    """Position 8 is reached by the long match 9 1 2 3; the short 2 3 must know of it too."""
    automaton = SuffixAutomaton([9, 1, 2, 3, 40, 9, 1, 2, 3, 50, 2, 3])
    assert (automaton.match_length, automaton.match_end) == (2, 8)


@pytest.mark.parametrize("name", list(growing_texts(10)))
def test_work_and_memory_grow_linearly(name: str) -> None:
    n = 10_000
    half, whole = SuffixAutomaton(growing_texts(n // 2)[name]), SuffixAutomaton(growing_texts(n)[name])
    assert whole.n_states <= 2 * n
    assert whole.n_transitions <= 3 * n
    # At most 4 links a token to build, and 8 to hand the new position up.
    assert whole.n_steps <= (4 + 8) * n
    assert whole.n_steps <= 2.2 * half.n_steps + 100
