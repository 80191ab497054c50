from __future__ import annotations

import numpy as np
import pytest

from edgespec.backend.toy import ToyModel, ToyTarget
from edgespec.exporting.texts import GROUP, Text, greedy_texts, shortened
from edgespec.spec.ports import Capabilities, IntArray

MODEL = ToyModel(n_vocab=16, order=3)


def prompts(*lengths: int) -> list[IntArray]:
    draw = np.random.default_rng(0)
    return [draw.integers(0, 16, n).astype(np.int32) for n in lengths]


def plain(prompt: list[int], n: int, ends: frozenset[int]) -> list[int]:
    text = list(prompt)
    while len(text) - len(prompt) < n:
        token = int(MODEL.logits(text).argmax())
        if token in ends:
            break
        text.append(token)
    return text[len(prompt) :]


@pytest.mark.parametrize("ends", [frozenset[int](), frozenset({3}), frozenset({1, 5, 9})])
def test_side_by_side_they_say_what_each_says_alone(ends: frozenset[int]) -> None:
    asked = prompts(*range(1, GROUP + 4))
    counts: list[int] = []
    target = ToyTarget(MODEL)
    texts = greedy_texts(target, asked, 12, ends, counts.append)
    expected = {tuple(one.tolist()): plain(one.tolist(), 12, ends) for one in asked}
    assert {tuple(text.prompt.tolist()): text.answer.tolist() for text in texts} == {
        prompt: answer for prompt, answer in expected.items() if answer
    }
    assert sum(counts) == sum(min(12, len(answer) + 1) for answer in expected.values())
    assert all(target.length(sequence) == 0 for sequence in range(GROUP))


def test_every_row_is_shown() -> None:
    shown: list[int] = []
    (prompt,) = prompts(4)
    (text,) = greedy_texts(
        ToyTarget(MODEL), [prompt], 7, frozenset(), on_row=lambda row: shown.append(int(row.argmax()))
    )
    assert shown == text.answer.tolist()


def test_answers_end_where_their_share_of_the_context_does() -> None:
    target = ToyTarget(MODEL, Capabilities(GROUP * 20, 16, 64, 64, 16, True))
    texts = greedy_texts(target, prompts(5, 19, 20, 30), 100, frozenset())
    assert [(len(text.prompt), len(text.answer)) for text in texts] == [(5, 15), (19, 1)]


def test_a_text_is_prompt_and_answer() -> None:
    text = Text(np.array([1, 2], dtype=np.int32), np.array([3], dtype=np.int32))
    assert text.tokens.tolist() == [1, 2, 3]
    assert text.tokens.dtype == np.int32


@pytest.mark.parametrize(
    ("lengths", "n", "kept"),
    [([10, 10, 10], 9, [3, 3, 3]), ([1, 10, 10], 9, [1, 4, 4]), ([10, 2, 3], 100, [2, 3, 10]), ([5, 5], 1, [1])],
)
def test_shortened(lengths: list[int], n: int, kept: list[int]) -> None:
    texts = [Text(np.zeros(2, np.int32), np.arange(length, dtype=np.int32)) for length in lengths]
    found = shortened(texts, n)
    assert [len(text.answer) for text in found] == kept
    assert all(text.answer.tolist() == list(range(len(text.answer))) for text in found)
