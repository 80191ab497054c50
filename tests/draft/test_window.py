from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.draft.window import Window

GUESSED = -1


def named(_: int) -> int:
    return GUESSED


def numbered(n_columns: int, n_levels: int) -> Window:
    """Each first token is the number of its place after the last committed token."""
    return Window(n_columns, n_levels, lambda token: token + 1, 0)


def test_it_starts_as_a_chain_of_guesses() -> None:
    window = numbered(3, 2)
    assert window.columns == ((1,), (2,), (3,))
    assert list(window.cells(9, 9)) == [((0, 0), None, 1), ((0, 1), (0, 0), 2), ((0, 2), (0, 1), 3)]
    assert (window.depth, window.is_full) == (1, False)


def test_cells_hang_from_the_level_above_and_level_0_from_the_column_before() -> None:
    window = numbered(2, 3)
    window.advance([10, 11], 0)
    assert list(window.cells(2, 3)) == [
        ((0, 0), None, 1),
        ((0, 1), (0, 0), 2),
        ((1, 0), (0, 0), 10),
        ((1, 1), (0, 1), 11),
    ]
    assert [cell for cell, _, _ in window.cells(1, 1)] == [(0, 0)]
    assert [cell for cell, _, _ in window.cells(1, 9)] == [(0, 0), (1, 0)]


@given(
    st.integers(1, 5),
    st.integers(1, 4),
    st.lists(
        st.tuples(st.sampled_from(["advance", "iterate", "slide"]), st.integers(1, 8), st.integers(1, 5)), max_size=15
    ),
)
def test_every_token_stays_at_its_place(n_columns: int, n_levels: int, steps: list[tuple[str, int, int]]) -> None:
    """Tokens are the numbers of the places they are meant for, so each cell tells whether it has moved rightly."""
    window, n_said = numbered(n_columns, n_levels), 0
    for what, n_emitted, n_taken in steps:
        depth = window.depth if what == "advance" else 1
        chosen = [n_said + depth + column + 1 for column in range(min(n_taken, n_columns))]
        if what == "slide":
            window.slide(n_emitted)
            expected = depth = window.depth
        elif what == "iterate":
            window.iterate(chosen, n_emitted)
            expected = 1
        else:
            pieces = window.advance(chosen, n_emitted)
            assert [piece[-1] for piece in pieces] == chosen
            assert {len(piece) for piece in pieces} == {depth + 1}
            expected = min(n_levels, depth + 1)
        n_said += n_emitted
        assert window.depth == expected
        assert window.is_full == (expected == n_levels)
        assert len(window.columns) == n_columns
        for column, tokens in enumerate(window.columns):
            assert list(tokens) == [n_said + column + level + 1 for level in range(expected)]


def test_one_level_is_replaced_by_what_follows_each_guess() -> None:
    """Jacobi: the guess for a place becomes what the target says after the guess before it."""
    for step in (Window.advance, Window.iterate):
        window = Window(4, 1, named, 0)
        step(window, [20, 30, 40, 50], 1)
        assert window.columns == ((20,), (30,), (40,), (50,))
        step(window, [21, 31, 41, 51], 3)
        assert window.columns == ((41,), (51,), (GUESSED,), (GUESSED,))


def test_a_full_window_gives_its_pieces_and_goes_on() -> None:
    window = Window(2, 2, named, 0)
    assert window.advance([10, 11], 1) == [(GUESSED, 10), (GUESSED, 11)]
    assert window.columns == ((GUESSED, 11), (11, GUESSED))
    assert window.advance([12, 13], 1) == [(GUESSED, 11, 12), (11, GUESSED, 13)]
    assert window.columns == ((11, 12), (GUESSED, 13))


@pytest.mark.parametrize(("n_columns", "n_levels"), [(0, 1), (1, 0)])
def test_an_empty_window_is_refused(n_columns: int, n_levels: int) -> None:
    with pytest.raises(ValueError, match="a window of"):
        numbered(n_columns, n_levels)
