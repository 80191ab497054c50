"""A grown tree is the likeliest part of all that the draft could say, whatever it can run at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.draft.growth import Deadline, grow
from edgespec.draft.sparse import Float64Array, SparseLaw
from edgespec.draft.trunk import Trunk
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.ports import Plan
from edgespec.spec.tree import EMPTY, DraftMode, DraftTree, best_first, check_tree, is_chain, leaves, tree_of
from tests.draft.toy_step import LogitsOf, ToyStep, hashed, toy_limits
from tests.spec.random_trees import path

N_VOCAB = 6
TEXT = [3, 1, 4]


def likeliest(p: Float64Array) -> int:
    return int(p.argmax())


def law_of(temperature: float, mode: DraftMode, seed: int = 0) -> SparseLaw:
    return SparseLaw(Law(SamplingSettings(temperature=temperature, seed=seed)), mode, likeliest)


def timeless() -> Deadline:
    return Deadline(lambda: 0.0, math.inf)


def whole(
    logits_of: LogitsOf, law: SparseLaw, depth: int, n_children: int, floor: float, only_first: bool
) -> DraftTree:
    """Every candidate, each row ranked by a step of its own; `only_first`: nothing hangs behind a further child."""
    tokens: list[int] = []
    parents: list[int] = []
    survival: list[float] = []

    def expand(node: int, text: list[int], above: float, depth: int) -> None:
        ranked = Trunk(ToyStep(logits_of, toy_limits(N_VOCAB, 4, max_rows=99))).rank(text, lambda: True)
        assert ranked is not None
        found = law.children(ranked.ids[0], ranked.logits[0], float(ranked.log_sums[0]), text, n_children, 0.0)
        for rank, (token, claim) in enumerate(zip(found.tokens, found.claims, strict=True)):
            if above * claim < floor:
                continue
            tokens.append(token)
            parents.append(node)
            survival.append(above * claim)
            if depth > 1 and not (only_first and rank):
                expand(len(tokens) - 1, [*text, token], above * claim, depth - 1)

    expand(-1, TEXT, 1.0, depth)
    return tree_of(tokens, parents, survival)


def guesses(tree: DraftTree) -> dict[tuple[int, ...], float]:
    return {path(tree, node): float(tree.survival[node]) for node in range(len(tree))}


@given(
    st.integers(0, 10**6),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 5),
    st.booleans(),
    st.sampled_from([0.0, 0.0, 0.1, 0.4]),
    st.sampled_from([(0.0, DraftMode.COUPLED), (0.8, DraftMode.COUPLED), (1.0, DraftMode.POINT)]),
)
def test_growth_finds_what_growing_everything_finds(
    seed: int,
    max_nodes: int,
    max_leaves: int,
    max_rows: int,
    branches: bool,
    floor: float,
    how: tuple[float, DraftMode],
) -> None:
    logits_of, law = hashed(N_VOCAB, seed), law_of(*how, seed=seed)
    step = ToyStep(logits_of, toy_limits(N_VOCAB, 4, max_rows=max_rows, branches=branches))
    tree = grow(Trunk(step), law, TEXT, Plan(max_nodes, max_leaves), floor, timeless())
    check_tree(tree, N_VOCAB)
    assert len(tree) <= max_nodes
    assert len(leaves(tree)) <= max_leaves
    assert tree.mode is law.mode or not len(tree)
    everything = whole(logits_of, law, max_nodes, max_leaves, floor, only_first=not branches)
    expected = guesses(best_first(everything, max_nodes, max_leaves)[0])
    found = guesses(tree)
    assert found.keys() == expected.keys()
    assert list(found.values()) == pytest.approx([expected[guess] for guess in found], abs=1e-6)


@given(st.integers(0, 10**6), st.integers(1, 8), st.sampled_from([0.3, 1.0, 3.0]))
def test_every_branch_of_a_large_tree_was_read_as_the_text_it_stands_for(
    seed: int, max_rows: int, spread: float
) -> None:
    logits_of, law = hashed(N_VOCAB, seed, spread), law_of(0.9, DraftMode.COUPLED, seed)
    step = ToyStep(logits_of, toy_limits(N_VOCAB, 4, max_rows=max_rows))
    tree = grow(Trunk(step), law, TEXT, Plan(14, 4), 0.0, timeless())
    assert len(tree) == 14
    for node in {-1, *tree.parents.tolist()}:
        text = [*TEXT, *(path(tree, node) if node >= 0 else ())]
        assert tuple(text) in step.cells
        ranked = Trunk(ToyStep(logits_of, toy_limits(N_VOCAB, 4, max_rows=99))).rank(text, lambda: True)
        assert ranked is not None
        best = law.children(ranked.ids[0], ranked.logits[0], float(ranked.log_sums[0]), text, 4, 0.0)
        children = tree.tokens[tree.parents == node].tolist()
        assert set(children) == set(best.tokens[: len(children)])


@pytest.mark.parametrize("mode", list(DraftMode))
@pytest.mark.parametrize("branches", [True, False])
def test_a_chain_takes_one_row_a_token(mode: DraftMode, branches: bool) -> None:
    step = ToyStep(hashed(N_VOCAB, 1), toy_limits(N_VOCAB, branches=branches))
    trunk = Trunk(step)
    tree = grow(trunk, law_of(1.0, mode), TEXT, Plan(5), 0.0, timeless())
    assert is_chain(tree)
    assert (len(tree), step.n_runs, step.n_rows) == (5, 5, 3 + 4)
    assert trunk.n_cells == 3 + 4
    assert [cell[:3] for cell in step.cells[2:]] == [tuple(TEXT)] * 5


def test_a_tree_takes_one_run_a_level() -> None:
    flat: LogitsOf = hashed(N_VOCAB, 1, spread=0.01)
    step = ToyStep(flat, toy_limits(N_VOCAB, max_rows=8))
    tree = grow(Trunk(step), law_of(0.0, DraftMode.POINT), TEXT, Plan(10, 8), 0.0, timeless())
    assert (len(tree), step.n_runs, len(leaves(tree))) == (10, 3, 8)


def test_side_leaves_of_a_chain_cost_no_run() -> None:
    step = ToyStep(hashed(N_VOCAB, 5), toy_limits(N_VOCAB, branches=False))
    tree = grow(Trunk(step), law_of(0.0, DraftMode.POINT), TEXT, Plan(6, 3), 0.0, timeless())
    inner = set(tree.parents.tolist()) - {-1}
    assert len(leaves(tree)) == 3
    assert step.n_rows <= 3 + len(tree)
    assert inner == set(range(len(inner)))  # all branching is off one chain


@pytest.mark.parametrize("mode", [DraftMode.SAMPLED, DraftMode.REPEATED])
def test_a_drawn_tree_is_a_chain_with_its_laws_whatever_the_plan_allows(mode: DraftMode) -> None:
    step = ToyStep(hashed(N_VOCAB, 5), toy_limits(N_VOCAB, 3))
    tree = grow(Trunk(step), law_of(0.8, mode), TEXT, Plan(4, 3), 0.0, timeless())
    check_tree(tree, N_VOCAB)
    assert (is_chain(tree), len(tree), len(tree.laws), tree.laws[-1]) == (True, 4, 5, None)
    laws = [law for law in tree.laws if law is not None]
    assert [int(law.ids[law.p.argmax()]) for law in laws] == tree.tokens.tolist()


def test_whether_a_sampled_token_is_submitted_does_not_depend_on_it() -> None:
    """Its survival is settled before the draw, and so is where the chain ends."""

    def trees(draws: Sequence[int]) -> DraftTree:
        script = iter(draws)
        law = SparseLaw(Law(SamplingSettings(temperature=1.0)), DraftMode.SAMPLED, lambda p: next(script) % len(p))
        step = ToyStep(hashed(N_VOCAB, 2), toy_limits(N_VOCAB, 3))
        return grow(Trunk(step), law, TEXT, Plan(9), 0.05, timeless())

    for first in range(3):
        alike = [trees([first, *[last] * 9]) for last in range(3)]
        assert len({tree.survival[1] for tree in alike}) == 1
        assert len({tree.tokens[1] for tree in alike}) == 3
    assert {len(trees([0] * 9)), len(trees([2] * 9))} < set(range(1, 9))


@pytest.mark.parametrize("plan", [Plan(0), Plan(3, 0), Plan(-1)])
def test_an_empty_plan_asks_the_network_nothing(plan: Plan) -> None:
    step = ToyStep(hashed(N_VOCAB, 0), toy_limits(N_VOCAB))
    assert grow(Trunk(step), law_of(0.0, DraftMode.POINT), TEXT, plan, 0.0, timeless()) is EMPTY
    assert step.n_runs == step.n_read == 0


def test_the_cells_set_an_end() -> None:
    """The text has 3 cells, so two nodes can be run and a third hang from the last; a longer text is not drafted."""
    step = ToyStep(hashed(N_VOCAB, 0), toy_limits(N_VOCAB, n_ctx=5))
    law = law_of(0.0, DraftMode.POINT)
    assert len(grow(Trunk(step), law, TEXT, Plan(9), 0.0, timeless())) == 3
    assert len(grow(Trunk(step), law, [*TEXT, 0, 0], Plan(9), 0.0, timeless())) == 1
    for text in ([*TEXT, 0, 0, 0], []):
        assert grow(Trunk(step), law, text, Plan(9), 0.0, timeless()) is EMPTY


def test_nothing_grows_where_all_is_banned_or_too_unlikely() -> None:
    step = ToyStep(hashed(N_VOCAB, 0), toy_limits(N_VOCAB))
    banned = SparseLaw(Law(SamplingSettings(banned=tuple(range(N_VOCAB)))), DraftMode.POINT, likeliest)
    assert grow(Trunk(step), banned, TEXT, Plan(9), 0.0, timeless()) is EMPTY
    assert grow(Trunk(step), law_of(0.0, DraftMode.POINT), TEXT, Plan(9), 0.99, timeless()) is EMPTY
    assert step.n_runs == 2


def test_growth_stops_before_the_step_that_would_end_too_late() -> None:
    ticks = iter([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    step = ToyStep(hashed(N_VOCAB, 0), toy_limits(N_VOCAB))
    tree = grow(Trunk(step), law_of(0.0, DraftMode.POINT), TEXT, Plan(9), 0.0, Deadline(ticks.__next__, 3.5))
    assert (len(tree), step.n_runs) == (3, 3)


def test_a_deadline_reckons_with_the_longest_step_so_far() -> None:
    ticks = iter([10.0, 10.5, 13.0, 13.1, 15.0])
    deadline = Deadline(ticks.__next__, 5.5)
    assert [deadline.go_on() for _ in range(3)] == [True, True, False]


def test_a_text_too_long_to_be_read_in_time_is_read_on_by_the_next_call() -> None:
    step = ToyStep(hashed(N_VOCAB, 0), toy_limits(N_VOCAB, max_rows=1, max_chunk=4))
    trunk, law, text = Trunk(step), law_of(0.0, DraftMode.POINT), [1] * 11
    for n_read in (4, 8):
        ticks = iter([0.0, 1.0])
        assert grow(trunk, law, text, Plan(1), 0.0, Deadline(ticks.__next__, 1.5)) is EMPTY
        assert step.n_read == n_read
    assert len(grow(trunk, law, text, Plan(1), 0.0, timeless())) == 1
