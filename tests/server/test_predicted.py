from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from edgespec.server.predicted import n_came_true

TOKENS = st.lists(st.integers(0, 4), max_size=40)


def by_table(a: Sequence[int], b: Sequence[int]) -> int:
    """The textbook's longest common subsequence."""
    row = [0] * (len(b) + 1)
    for x in a:
        before = row
        row = [0]
        for i, y in enumerate(b):
            row.append(before[i] + 1 if x == y else max(before[i + 1], row[i]))
    return row[-1]


@given(TOKENS, TOKENS)
def test_it_is_the_longest_common_subsequence(prediction: list[int], output: list[int]) -> None:
    assert n_came_true(prediction, output) == by_table(prediction, output)


def test_a_prediction_of_a_million_tokens_takes_no_time_to_speak_of() -> None:
    prediction = [token % 5000 for token in range(1_000_000)]  # a number of a million bits for each token took minutes
    assert n_came_true(prediction, [*range(300), 6000, *range(300)]) == 600


@given(TOKENS)
def test_all_of_a_text_that_came_true_counts(tokens: list[int]) -> None:
    assert n_came_true(tokens, tokens) == len(tokens)
    assert n_came_true(tokens, [9, *tokens, 9]) == len(tokens)
