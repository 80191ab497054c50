"""A target that knows its text beforehand, and the rounds of one drafter against it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgespec.spec.merging import merge
from edgespec.spec.ports import Commit, Drafter, FloatArray, IntArray, Plan, SequenceId
from edgespec.spec.tree import DraftTree, best_first, child_table


class NoRows:
    """The rows of a target that a draft-free drafter has no business reading."""

    def logits(self, row: int) -> FloatArray:
        raise AssertionError(f"row {row} was read")


def prompt_of(tokens: Sequence[int]) -> IntArray:
    return np.array(tokens, np.int32)


def commit_of(tokens: Sequence[int], path: Sequence[int] = ()) -> Commit:
    return Commit(np.array(path, np.int32), np.array(tokens, np.int32))


def walk(tree: DraftTree, truth: Sequence[int]) -> Commit:
    """The verdict of a target whose next tokens are `truth`, which must not be empty; its end cuts the walk."""
    children = child_table(tree)
    path: list[int] = []
    emitted: list[int] = []
    node = -1
    for token in truth:
        emitted.append(token)
        child = children.get((node, token))
        if child is None or len(emitted) == len(truth):
            break
        path.append(child)
        node = child
    return commit_of(emitted, path)


@dataclass(slots=True)
class Tally:
    n_tokens: int = 0
    n_passes: int = 0
    n_drafted: int = 0

    @property
    def tokens_per_pass(self) -> float:
        return self.n_tokens / self.n_passes


def play(drafter: Drafter, sequence: SequenceId, truth: Sequence[int], plan: Plan) -> Tally:
    """Rounds until `truth` is out; the drafter must have begun the sequence."""
    tally = Tally()
    while tally.n_tokens < len(truth):
        tree = drafter.propose(sequence, plan)
        drafter.anticipate(sequence, tree)
        commit = walk(tree, truth[tally.n_tokens :])
        drafter.observe(sequence, commit, NoRows(), np.arange(len(tree), dtype=np.int32))
        tally.n_tokens += len(commit.tokens)
        tally.n_passes += 1
        tally.n_drafted += len(tree)
    return tally


def joined(own: DraftTree, other: DraftTree, max_nodes: int, max_leaves: int) -> tuple[DraftTree, IntArray]:
    """A pass shared with another drafter whose nodes come first, cut to size; and where the own nodes went."""
    merged, (_, own_map) = merge([other, own])
    kept, kept_map = best_first(merged, max_nodes, max_leaves)
    return kept, kept_map[own_map]
