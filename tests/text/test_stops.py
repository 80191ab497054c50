"""Stop strings: the scanner against the plain twin, for every cut of the text."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.errors import BadInput
from edgespec.text.stops import StopScanner

ALPHABET = "abé"
texts = st.text(ALPHABET, max_size=16)
stop_sets = st.lists(st.text(ALPHABET, min_size=1, max_size=5), max_size=4)


def first_stop(text: str, stops: list[str]) -> int | None:
    """Plain twin: where the earliest stop starts in a whole text."""
    return min((at for at in map(text.find, stops) if at >= 0), default=None)


def safe_length(text: str, stops: list[str]) -> int:
    """Plain twin: all but the longest suffix that is a proper prefix of a stop."""
    heads = {stop[:n] for stop in stops for n in range(1, len(stop))}
    return min((at for at in range(len(text)) if text[at:] in heads), default=len(text))


def expected(text: str, stops: list[str]) -> tuple[int, bool]:
    """(safe characters, stopped) for a text that may go on: a stop counts once no earlier one can still complete."""
    for end in range(len(text) + 1):
        at = first_stop(text[:end], stops)
        if at is not None and safe_length(text[:end], stops) >= at:
            return at, True
    return safe_length(text, stops), False


def scanned(pieces: list[str], stops: list[str]) -> StopScanner:
    scanner = StopScanner(stops)
    for piece in pieces:
        scanner.scan(piece)
    return scanner


@settings(max_examples=600, deadline=None)
@given(texts, stop_sets, st.sets(st.integers(1, 15)))
def test_every_cut_of_a_text_gives_the_twin_s_verdict(text: str, stops: list[str], cuts: set[int]) -> None:
    bounds = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    scanner = scanned([text[a:b] for a, b in itertools.pairwise(bounds)], stops)
    assert (scanner.n_safe, scanner.stopped) == expected(text, stops)
    scanner.finish()
    at = first_stop(text, stops)
    assert (scanner.n_safe, scanner.stopped) == (len(text) if at is None else at, at is not None)


def test_all_short_texts_and_pairs_of_stops() -> None:
    short = ["".join(letters) for n in (1, 2, 3) for letters in itertools.product("ab", repeat=n)]
    long = ["".join(letters) for letters in itertools.product("ab", repeat=6)]
    for first, second in itertools.combinations(short, 2):
        for text in long:
            scanner = scanned(list(text), [first, second])
            assert (scanner.n_safe, scanner.stopped) == expected(text, [first, second])


def test_an_earlier_longer_stop_wins_over_one_that_completes_first() -> None:
    scanner = scanned(["xab", "c"], ["abcd", "bc"])
    assert (scanner.n_safe, scanner.stopped) == (1, False)
    scanner.scan("d")
    assert (scanner.n_safe, scanner.stopped) == (1, True)
    assert (scanned(["xabc", "e"], ["abcd", "bc"])).n_safe == 2


def test_text_after_a_stop_is_ignored() -> None:
    scanner = scanned(["one#two", "#three"], ["#"])
    assert (scanner.n_safe, scanner.stopped) == (3, True)


def test_without_stops_everything_is_safe() -> None:
    assert scanned(["abc", "\nUser:"], []).n_safe == 9


def test_a_very_long_stop_costs_its_length_once() -> None:
    stop = "a" * 20_000 + "b"
    scanner = scanned(["a" * 50_000], [stop])
    assert (scanner.n_safe, scanner.stopped) == (30_000, False)
    scanner.scan("b")
    assert (scanner.n_safe, scanner.stopped) == (30_000, True)


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(BadInput, match="leave it out"):
        StopScanner(["a", ""])
