from __future__ import annotations

from collections.abc import Sequence as Seq

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.ports import Commit
from edgespec.spec.tree import EMPTY, DraftMode, DraftTree, chain, tree_of
from edgespec.spec.verify import PathVerifier, Prefix
from tests.spec.random_trees import N_VOCAB, line, trees

FloatArray = npt.NDArray[np.float32]
NONE: frozenset[int] = frozenset()


def logits_after(text: Seq[int]) -> FloatArray:
    """A model that listens to its last three tokens, with ties and impossible tokens."""
    rng = np.random.default_rng([len(text) % 7, *text[max(0, len(text) - 3) :]])
    row = np.round(rng.normal(size=N_VOCAB), 1)
    row[rng.random(N_VOCAB) < 0.3] = -np.inf
    row[rng.integers(N_VOCAB)] = 1.0
    return row.astype(np.float32)


class TableRows:
    """The rows of a tree after `history`, and a note of which were read."""

    def __init__(self, tree: DraftTree, history: Seq[int]) -> None:
        self.read: list[int] = []
        self._texts = [[*history], *([*history, *tree.tokens[line(tree, n)].tolist()] for n in range(len(tree)))]

    def logits(self, row: int) -> FloatArray:
        self.read.append(row)
        return logits_after(self._texts[row])


def plain(law: Law, history: list[int], n: int) -> list[int]:
    text = list(history)
    for _ in range(n):
        text.append(law.choose(logits_after(text), text))
    return text[len(history) :]


@settings(max_examples=400)
@given(
    trees(),
    st.lists(st.integers(0, N_VOCAB - 1), min_size=1, max_size=5),
    st.sampled_from(
        [
            SamplingSettings(),
            SamplingSettings(temperature=1.0, seed=3),
            SamplingSettings(temperature=0.8, top_p=0.9, presence_penalty=1.0, penalty_last_n=3),
            SamplingSettings(repeat_penalty=1.5),
        ]
    ),
    st.integers(1, 12),
    st.frozensets(st.integers(0, N_VOCAB - 1), max_size=1),
)
def test_a_walk_is_plain_decoding_as_far_as_the_draft_agrees(
    tree: DraftTree, history: list[int], chain_: SamplingSettings, limit: int, end_tokens: frozenset[int]
) -> None:
    law, rows, before = Law(chain_), TableRows(tree, history), list(history)
    commit = PathVerifier().walk(tree, rows, law, history, limit, end_tokens)
    tokens, path = commit.tokens.tolist(), commit.path.tolist()
    assert history == before
    assert commit.tokens.dtype == commit.path.dtype == np.int32
    assert tokens == plain(law, history, len(tokens))
    assert len(tokens) == len(path) + 1 <= limit
    assert path == (line(tree, path[-1]) if path else [])
    assert tree.tokens[path].tolist() == tokens[:-1]
    assert rows.read == [0, *(node + 1 for node in path)]
    assert not end_tokens.intersection(tokens[:-1])
    # It stopped for a reason: a limit, an end, or no child that carries the last token.
    last = path[-1] if path else -1
    stuck = not ((tree.parents == last) & (tree.tokens == tokens[-1])).any()
    assert stuck or len(tokens) == limit or tokens[-1] in end_tokens


class Script:
    """A law that says what it is told and remembers the history that it was shown."""

    def __init__(self, *tokens: int) -> None:
        self.tokens = list(tokens)
        self.seen: list[list[int]] = []

    def choose(self, logits: FloatArray, history: Seq[int]) -> int:
        assert len(logits) == N_VOCAB
        self.seen.append([history[i] for i in range(len(history))])
        return self.tokens.pop(0)


def walk(tree: DraftTree, script: Script, limit: int = 99, end_tokens: frozenset[int] = NONE) -> Commit:
    return PathVerifier().walk(tree, TableRows(tree, [9]), script, [9], limit, end_tokens)


TREE = tree_of([1, 2, 3, 0], [-1, -1, 1, 2], [0.5, 0.5, 0.5, 0.5])


def test_the_bonus_follows_the_path_and_the_law_sees_it() -> None:
    script = Script(2, 3, 3)
    commit = walk(TREE, script)
    assert commit.path.tolist() == [1, 2]
    assert commit.tokens.tolist() == [2, 3, 3]
    assert commit.bonus == 3
    assert script.seen == [[9], [9, 2], [9, 2, 3]]


def test_no_draft_and_no_match_emit_one_token() -> None:
    for tree in (EMPTY, TREE):
        commit = walk(tree, Script(3))
        assert (commit.path.tolist(), commit.tokens.tolist()) == ([], [3])


def test_a_limit_puts_the_last_accepted_token_in_the_place_of_the_bonus() -> None:
    commit = walk(TREE, Script(2, 3), limit=2)
    assert (commit.path.tolist(), commit.tokens.tolist()) == ([1], [2, 3])
    assert walk(TREE, Script(2), limit=1).path.tolist() == []


def test_an_end_token_ends_the_walk_inside_the_tree() -> None:
    commit = walk(TREE, Script(2, 3), end_tokens=frozenset({3}))
    assert (commit.path.tolist(), commit.tokens.tolist()) == ([1], [2, 3])


def test_a_leaf_is_followed_by_a_bonus() -> None:
    commit = walk(TREE, Script(2, 3, 0, 1))
    assert (commit.path.tolist(), commit.tokens.tolist()) == ([1, 2, 3], [2, 3, 0, 1])


@pytest.mark.parametrize("mode", list(DraftMode))
def test_every_mode_is_welcome(mode: DraftMode) -> None:
    assert walk(chain([1, 1], [0.5, 0.5], mode=mode), Script(1, 1, 0)).path.tolist() == [0, 1]


def test_a_walk_that_may_emit_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="limit is 0"):
        walk(TREE, Script(1), limit=0)


BOUND = st.one_of(st.none(), st.integers(-9, 9))


@given(st.lists(st.integers(0, 9), max_size=6), st.lists(st.integers(0, 9), max_size=4), BOUND, BOUND, st.data())
def test_a_prefix_reads_like_the_joined_list(
    base: list[int], tail: list[int], start: int | None, stop: int | None, data: st.DataObject
) -> None:
    joined, prefix = base + tail, Prefix(base, tail)
    step = data.draw(st.sampled_from([None, 1, 2, -1]))
    assert prefix[start:stop:step] == joined[start:stop:step]
    assert list(prefix) == joined
    assert len(prefix) == len(joined)
    for index in range(-len(joined), len(joined)):
        assert prefix[index] == joined[index]
    for outside in (len(joined), -len(joined) - 1):
        with pytest.raises(IndexError):
            prefix[outside]


def test_a_prefix_shows_later_changes() -> None:
    tail: list[int] = []
    prefix = Prefix((1, 2), tail)
    tail.append(3)
    assert prefix[-2:] == [2, 3]
