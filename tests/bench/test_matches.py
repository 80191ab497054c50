from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.bench.matches import NO_MATCHES, STARTS, Matches, match_lengths, matches, names
from edgespec.events import RoundReport


def length_plainly(text: list[int]) -> int:
    """Of the longest suffix that also ends earlier, by looking at all of them."""
    n = len(text)
    found = [k for k in range(1, n) if any(text[i : i + k] == text[n - k :] for i in range(n - k))]
    return max(found, default=0)


def report(tokens: tuple[int, ...], guesses: tuple[int, ...] = (), n_right: int = 0) -> RoundReport:
    """A round with a chain of guesses of which the first `n_right` came true."""
    sources = tuple("lookup" if i < n_right else "" for i in range(len(tokens)))
    parents = tuple(range(-1, len(guesses) - 1))
    path = tuple(range(len(tokens) - 1))
    return RoundReport(
        1 + len(guesses), 0, len(guesses), n_right, tokens, sources, 0.0, 0.1, 0.1, 1, guesses, parents, path
    )


@given(st.lists(st.integers(0, 2), max_size=24))
def test_match_lengths_are_those_found_by_looking_at_all_suffixes(text: list[int]) -> None:
    assert match_lengths(text) == [length_plainly(text[:i]) for i in range(len(text))]


def test_buckets_have_names() -> None:
    assert names() == ["0", "1", "2", "3", "4-5", "6-7", "8-15", "16+"]


def counted(found: Matches) -> dict[str, tuple[int, int]]:
    """Of the buckets that had any: places with guesses, and those where one came true."""
    rows = zip(names(), found.n_tried, found.n_right, strict=True)
    return {name: (n_tried, n_right) for name, n_tried, n_right in rows if n_tried}


def test_each_place_counts_in_the_bucket_of_the_text_before_it() -> None:
    prompt = [1, 2, 3, 4, 5, 1, 2]
    rounds = [report((3, 4, 9), (3, 4, 5), n_right=2), report((7,)), report((8,), (1,))]
    # Before 3 there is "1 2", before 4 "1 2 3", before the wrong 5 four tokens; before 8 nothing that was there before.
    assert counted(matches(prompt, rounds)) == {"0": (1, 0), "2": (1, 1), "3": (1, 1), "4-5": (1, 0)}


def test_behind_a_wrong_guess_nothing_counts() -> None:
    assert sum(matches([1, 2, 1], [report((9,), (2, 1, 2))]).n_tried) == 1


def test_several_guesses_for_one_place_are_one_try() -> None:
    siblings = replace(report((9,), (1, 2, 3)), tree_parents=(-1, -1, -1))
    found = matches([4], [siblings])
    assert (sum(found.n_tried), sum(found.n_right)) == (1, 0)


def test_a_last_token_that_was_guessed_counts() -> None:
    found = matches([1, 2, 1], [report((2, 1), (2, 1), n_right=2)])
    assert (sum(found.n_tried), sum(found.n_right)) == (2, 2)


def test_answers_without_drafts_are_not_looked_into() -> None:
    assert matches([1, 1, 1], [report((1,)), report((1,))]) is NO_MATCHES


def test_counts_add_up() -> None:
    one = Matches((1, 2, *[0] * (len(STARTS) - 2)), (0, 2, *[0] * (len(STARTS) - 2)))
    assert one + NO_MATCHES == one
    assert (one + one).n_tried[:2] == (2, 4)


@pytest.mark.parametrize(
    ("n_tried", "n_right"),
    [((1,), (1,)), ((0,) * 8, (0,) * 7), ((0,) * 8, (1, *[0] * 7)), ((1.0,) * 8, (1,) * 8), ((0,) * 8, (-1,) * 8)],
)
def test_counts_that_cannot_be_are_refused(n_tried: tuple[int, ...], n_right: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"buckets|came true"):
        Matches(n_tried, n_right)
