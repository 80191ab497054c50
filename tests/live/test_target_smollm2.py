"""A real quantised model: what the toys show of verification, commits and cancelling holds at its size too."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from edgespec.backend.llama.native import load_model
from edgespec.backend.llama.target import Interrupted, LlamaTarget
from edgespec.backend.llama.vocab import LlamaVocabulary
from edgespec.backend.settings import LlamaSettings
from edgespec.backend.widths import PROBE_SEQUENCE, Scope, find_classes
from edgespec.spec.ports import FloatArray
from edgespec.spec.tree import DraftTree
from tests.backend.llama.driving import (
    accept,
    ids,
    line,
    peek,
    random_path,
    random_tree,
    read,
    same,
    step,
    tree,
    verify,
)

pytestmark = pytest.mark.live

SETTINGS = LlamaSettings(n_ctx=768, n_threads=1)
WIDTH = 8
TEXT = (
    "The old lighthouse keeper climbed the stairs once more, and when he reached the lamp he saw the sea was gone. "
    "Nobody in the village believed him at first; but then the children ran down to the harbour and found the boats"
)
WORDS = " the and of a light sea man boat ran went said water stone old"
# Between cells in another order, and between two widths, logits of quantised models differ by about as much: measured
# 0.9 at most, where their standard deviation is 3.5. A wrong token makes differences of 5 and more.
SHIFTED = 2.0


@dataclass(frozen=True, slots=True)
class Twins:
    """Two targets over one model, the one drafting, the other plain; prompt and words as tokens."""

    drafting: LlamaTarget
    plain: LlamaTarget
    prompt: list[int]
    words: list[int]

    def begin(self) -> None:
        for target in (self.drafting, self.plain):
            target.release(0)
            read(target, self.prompt[:-1], chunk=64)


@pytest.fixture(scope="module")
def loaded(starter_model: Path) -> Iterator[Twins]:
    model = load_model(starter_model, SETTINGS)
    drafting = LlamaTarget(model, SETTINGS)
    plain = drafting.sibling(SETTINGS.n_ctx)
    vocab = LlamaVocabulary(model)
    yield Twins(drafting, plain, vocab.tokenize(TEXT), vocab.tokenize(WORDS))
    plain.close()
    drafting.close()


@pytest.fixture
def twins(loaded: Twins) -> Twins:
    loaded.begin()
    return loaded


def near(a: FloatArray, b: FloatArray) -> bool:
    return float(np.abs(a - b).max()) <= SHIFTED


def test_a_chain_gives_the_rows_of_one_token_at_a_time(twins: Twins) -> None:
    tokens = [twins.prompt[-1], *twins.words[:7]]
    rows = verify(twins.drafting, tokens[:1], line(tokens[1:]), WIDTH)
    assert all(same(row, step(twins.plain, token, WIDTH)) for row, token in zip(rows, tokens, strict=True))


def test_a_tree_gives_the_rows_of_its_paths(twins: Twins) -> None:
    """Bit for bit along the principal branch; a wrong path is far off."""
    words, target = twins.words, twins.drafting
    draft = tree(words[:6], [-1, 0, 1, -1, 3, 3])
    rows = peek(target, twins.prompt[-1:], draft, WIDTH)
    for path in ([0, 1, 2], [3, 4], [3, 5]):
        chained = peek(target, twins.prompt[-1:], line([words[node] for node in path]), WIDTH)
        equal = same if path[0] == 0 else near
        assert all(equal(chained[i + 1], rows[node + 1]) for i, node in enumerate(path))
    wrong = peek(target, twins.prompt[-1:], line([words[6], words[1], words[2]]), WIDTH)
    assert not near(wrong[3], rows[3])


@pytest.mark.parametrize("canonical", [True, False], ids=["canonical", "fast"])
def test_random_rounds_leave_the_cache_of_plain_decoding(canonical: bool, twins: Twins) -> None:
    rng = random.Random(4)
    text, pending = list(twins.prompt), twins.prompt[-1:]
    for _ in range(8):
        draft = in_words(random_tree(rng, WIDTH - len(pending), 4), twins.words)
        path, bonus = random_path(rng, draft), rng.choice(twins.words)
        rows = verify(twins.drafting, pending, draft, WIDTH, canonical=canonical)
        pending = accept(twins.drafting, draft, path, bonus).tolist()
        for place, token in enumerate([*draft.tokens[path].tolist(), bonus]):
            row = rows[0] if place == 0 else rows[path[place - 1] + 1]
            principal = path[:place] == list(range(place))
            equal = same if canonical and principal else near
            assert equal(row, step(twins.plain, text[-1], WIDTH))
            text.append(token)
    assert twins.drafting.length(0) == len(text) - len(pending)


def in_words(draft: DraftTree, words: list[int]) -> DraftTree:
    return tree([words[token % len(words)] for token in draft.tokens.tolist()], draft.parents.tolist())


def test_a_rewind_is_as_if_nothing_had_been(twins: Twins) -> None:
    target, plain = twins.drafting, twins.plain
    target.release(0)
    read(target, twins.prompt, chunk=16)
    for length in (32, 16):
        assert target.rewind(0, length) == length
        plain.release(0)
        read(plain, twins.prompt[:length], chunk=16)
        assert same(peek(target, [5], width=WIDTH)[0], peek(plain, [5], width=WIDTH)[0])


def test_reading_can_be_cancelled(twins: Twins) -> None:
    """From another thread, as soon as a chunk of 256 tokens is being read; the text before it is still there."""
    target = twins.drafting
    expected = peek(target, [5], width=WIDTH)
    timer = threading.Timer(0.05, target.interrupt)
    timer.start()
    with pytest.raises(Interrupted):
        read_for_ever(target, twins.prompt)
    timer.join()
    target.resume()
    assert same(peek(target, [5], width=WIDTH)[0], expected[0])


def read_for_ever(target: LlamaTarget, prompt: list[int]) -> None:
    n_read = target.length(0)
    while True:
        target.extend(0, ids((prompt * 5)[:256]))
        target.rewind(0, n_read)


def test_widths_of_a_class_agree(twins: Twins) -> None:
    """The classes depend on the machine; that they hold, at another place of the text, does not."""
    target = twins.drafting
    text = np.array(twins.prompt * 4, np.int32)
    ticks = iter(range(10**6))
    classes = find_classes(target, text, lambda: next(ticks) * 1e-9, scopes=[Scope((64,), max_width=6, n_rows=16)])
    assert sorted(width for one in classes for width in one) == [1, 2, 3, 4, 5, 6]
    assert target.length(PROBE_SEQUENCE) == 0
    for widths in classes:
        rows = [peek(target, twins.words[:1], width=width)[0] for width in widths]
        assert all(same(rows[0], row) for row in rows)
