from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.draft.lookup import LookupDrafter
from edgespec.draft.mix import MixDrafter
from edgespec.draft.suffix import SuffixDrafter
from edgespec.spec.ports import Commit, IntArray, Needs, Plan, Rows, SequenceId
from edgespec.spec.tree import EMPTY, DraftMode, DraftTree, chain, check_tree, n_leaves, tree_of
from tests.draft.fake import NoRows, commit_of, joined, play, prompt_of
from tests.draft.test_contract import N_VOCAB, Follower, Round, foreign_trees, prompts, rounds


class Scripted:
    """Proposes a given tree and writes down what it is told."""

    def __init__(self, tree: DraftTree, n_behind: int = 0, needs: Needs = Needs.TOKENS) -> None:
        self.name = "scripted"
        self.needs = needs
        self.plans: list[Plan] = []
        self.told: list[str] = []
        self.nodes: list[list[int]] = []
        self._tree = tree
        self._n_behind = n_behind

    def begin(self, sequence: SequenceId, prompt: IntArray) -> None:
        self.told.append(f"begin {sequence} {prompt.tolist()}")

    def propose(self, sequence: SequenceId, plan: Plan) -> DraftTree:
        self.plans.append(plan)
        return self._tree

    def behind(self, sequence: SequenceId) -> int:
        return self._n_behind

    def anticipate(self, sequence: SequenceId, tree: DraftTree) -> None:
        self.told.append(f"anticipate {tree.tokens.tolist()}")

    def observe(self, sequence: SequenceId, commit: Commit, rows: Rows, nodes: IntArray) -> None:
        self.nodes.append(nodes.tolist())

    def end(self, sequence: SequenceId) -> None:
        self.told.append(f"end {sequence}")


def paths_of(tree: DraftTree) -> list[tuple[int, ...]]:
    paths: list[tuple[int, ...]] = []
    for token, parent in zip(tree.tokens.tolist(), tree.parents.tolist(), strict=True):
        paths.append((*(paths[parent] if parent >= 0 else ()), token))
    return paths


def observe(mix: MixDrafter, nodes: Sequence[int]) -> None:
    mix.observe(0, commit_of([1]), NoRows(), prompt_of(nodes))


def test_one_tree_of_all_parts_each_prefix_once_the_likeliest_kept() -> None:
    first, second = Scripted(chain([1, 2, 3], [0.9, 0.5, 0.1])), Scripted(chain([1, 4], [0.6, 0.4]))
    mix = MixDrafter([first, second])
    tree = mix.propose(0, Plan(3, 2))
    assert paths_of(tree) == [(1,), (1, 2), (1, 4)]
    assert tree.survival.tolist() == pytest.approx([0.9, 0.5, 0.4])
    assert tree.sources.tolist() == [0, 0, 0]
    observe(mix, [10, 11, 12])
    assert (first.nodes, second.nodes) == ([[10, 11, -1]], [[10, 12]])


@settings(deadline=None)
@given(st.lists(foreign_trees, min_size=1, max_size=3), foreign_trees, st.integers(0, 8), st.integers(1, 4))
def test_every_part_finds_its_own_nodes_again(
    trees: list[DraftTree], other: DraftTree, n: int, max_leaves: int
) -> None:
    """Also after the mixed tree itself was merged with another drafter's and cut."""
    parts = [Scripted(tree) for tree in trees]
    mix = MixDrafter(parts)
    own = mix.propose(0, Plan(n, max_leaves))
    check_tree(own, N_VOCAB)
    assert len(own) <= n
    assert n_leaves(own) <= max_leaves
    assert set(paths_of(own)) <= {path for tree in trees for path in paths_of(tree)}
    verified, nodes = joined(own, other, 6, 3)
    mix.observe(0, commit_of([1]), NoRows(), nodes)
    shared = paths_of(verified)
    kept = {path for path, node in zip(paths_of(own), nodes.tolist(), strict=True) if node >= 0}
    for part, tree in zip(parts, trees, strict=True):
        for path, node in zip(paths_of(tree), part.nodes[0], strict=True):
            assert (node >= 0) == (path in kept)
            assert node < 0 or shared[node] == path


def test_a_round_in_which_it_was_not_asked_is_passed_on() -> None:
    part = Scripted(EMPTY)
    observe(MixDrafter([part]), [])
    assert part.nodes == [[]]


def test_a_sampled_tree_is_used_alone_and_uncut() -> None:
    drawn = replace(chain([1, 2, 3], [0.9, 0.5, 0.1]), mode=DraftMode.SAMPLED)
    parts = [Scripted(chain([1, 4], [0.99, 0.98])), Scripted(drawn), Scripted(drawn)]
    mix = MixDrafter(parts)
    tree = mix.propose(0, Plan(3, 1))
    assert paths_of(tree) == [(1,), (1, 2), (1, 2, 3)]
    assert tree.mode is DraftMode.SAMPLED
    observe(mix, [0, 1, 2])
    assert [part.nodes for part in parts] == [[[-1, -1]], [[0, 1, 2]], [[-1, -1, -1]]]


def test_parts_share_the_deadline_and_have_the_whole_budget() -> None:
    parts = [Scripted(EMPTY), Scripted(EMPTY)]
    mix = MixDrafter(parts)
    assert len(mix.propose(0, Plan(7, 3, deadline_seconds=0.5))) == 0
    mix.propose(0, Plan(7, 3))
    assert [part.plans for part in parts] == [[Plan(7, 3, 0.25), Plan(7, 3)]] * 2


def test_everything_else_reaches_every_part() -> None:
    parts = [Scripted(EMPTY, 3), Scripted(EMPTY, 5, Needs.TOKENS | Needs.ROWS)]
    mix = MixDrafter(parts, name="both")
    mix.begin(0, prompt_of([1, 2]))
    mix.anticipate(0, tree_of([4], [-1], [0.5]))
    mix.end(0)
    assert [part.told for part in parts] == [["begin 0 [1, 2]", "anticipate [4]", "end 0"]] * 2
    assert mix.behind(0) == 5
    assert mix.needs == Needs.TOKENS | Needs.ROWS
    assert mix.name == "both"
    with pytest.raises(ValueError, match="at least one"):
        MixDrafter([])


@settings(deadline=None)
@given(prompts, st.lists(st.tuples(rounds, st.integers(0, 1)), max_size=15), st.integers(0, 50))
def test_real_parts_keep_the_contract_in_any_run_of_rounds(
    prompt: list[int], played: list[tuple[Round, int]], salt: int
) -> None:
    lookup, suffix = LookupDrafter(), SuffixDrafter()

    def indexed(sequence: SequenceId) -> tuple[int, ...]:
        assert lookup.indexed(sequence) == suffix.indexed(sequence)
        return suffix.indexed(sequence)

    follower = Follower(MixDrafter([lookup, suffix]), indexed, counts_prompt=True)
    for sequence in (0, 1):
        follower.begin(sequence, prompt[sequence:])
    for one, sequence in played:
        follower.round(sequence, one, salt)


def test_a_mix_gets_at_least_as_far_as_its_better_part() -> None:
    block = list(range(100, 160))
    passes = []
    for drafter in (MixDrafter([LookupDrafter(), SuffixDrafter()]), LookupDrafter(), SuffixDrafter()):
        drafter.begin(0, prompt_of([*block, 0]))
        passes.append(play(drafter, 0, block, Plan(max_nodes=15)).n_passes)
    assert passes[0] <= min(passes[1:])
    assert np.all(np.array(passes) < len(block))
