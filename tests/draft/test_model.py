"""Proposals depend on the text alone, and answers not on the proposals: twins without a cache and without a drafter."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.backend.toy import ToyModel, ToyTarget
from edgespec.draft.guard import RAISED, GuardedDrafter
from edgespec.draft.model import ModelDrafter, seeded
from edgespec.draft.sparse import Float64Array
from edgespec.draft.trunk import Trunk
from edgespec.errors import EngineFailure
from edgespec.events import Notice
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.policy import FixedPolicy
from edgespec.spec.ports import Capabilities, Drafter, FloatArray, IntArray, Needs, Plan
from edgespec.spec.round import Drafting, Loop
from edgespec.spec.sequence import SequenceState
from edgespec.spec.step import Ranked
from edgespec.spec.tree import EMPTY, DraftMode, DraftTree, check_tree, leaves
from edgespec.spec.verify import PathVerifier
from tests.draft.fake import NoRows, commit_of, prompt_of
from tests.draft.toy_step import LogitsOf, Text, ToyStep, hashed, toy_limits
from tests.laws.gtest import deviates
from tests.spec import rows
from tests.spec.plain_decoding import Asked, plain_fast

N_VOCAB = 7
LOGITS = hashed(N_VOCAB, 3)
ASKED = SamplingSettings(temperature=0.8, seed=5, presence_penalty=0.5)


def timeless() -> float:
    return 0.0


def by_the_law(p: Float64Array) -> int:
    """Any token, but the same one for the same law."""
    return int(1e6 * float((p * np.arange(1, len(p) + 1)).sum())) % len(p)


def drafter_of(trunk: Trunk, sampling: SamplingSettings = ASKED, mode: DraftMode = DraftMode.COUPLED) -> ModelDrafter:
    return ModelDrafter(trunk, Law(sampling), timeless, mode, stop_below=0.01, draw=by_the_law)


def same(one: DraftTree, two: DraftTree) -> bool:
    return one.mode == two.mode and all(
        getattr(one, name).tolist() == getattr(two, name).tolist() for name in ("tokens", "parents", "survival")
    )


# -- a proposal is a function of the text -------------------------------------------------------------------------

played_rounds = st.tuples(
    st.integers(0, 1),  # sequence
    st.booleans(),  # whether it is asked
    st.builds(Plan, st.integers(0, 7), st.integers(1, 3)),
    st.integers(0, 99),  # the node it is accepted to
    st.integers(0, N_VOCAB - 1),  # the bonus
)


@given(
    st.lists(played_rounds, max_size=12),
    st.tuples(*[st.lists(st.integers(0, 1), min_size=1, max_size=20)] * 2),
    st.tuples(*[st.sampled_from(list(DraftMode))] * 2),
    st.sampled_from([0.0, 0.8]),
    st.integers(1, 6),
    st.booleans(),
)
def test_proposals_are_those_of_a_drafter_that_reads_everything_anew(
    played: list[tuple[int, bool, Plan, int, int]],
    prompts: tuple[list[int], list[int]],
    modes: tuple[DraftMode, DraftMode],
    temperature: float,
    max_rows: int,
    branches: bool,
) -> None:
    """Two requests with drafters of their own, laws of their own and one network; any node may be accepted."""
    limits = toy_limits(N_VOCAB, 4, n_ctx=40, max_rows=max_rows, max_chunk=5, branches=branches)
    trunk = Trunk(ToyStep(LOGITS, limits))
    asked = [SamplingSettings(temperature=temperature, seed=seed, presence_penalty=seed / 2) for seed in (1, 2)]
    drafters = [drafter_of(trunk, *how) for how in zip(asked, modes, strict=True)]
    texts = [list(prompt) for prompt in prompts]
    for sequence, drafter in enumerate(drafters):
        drafter.begin(sequence, prompt_of(texts[sequence]))
    for sequence, is_asked, plan, node, bonus in played:
        drafter, text = drafters[sequence], texts[sequence]
        tree = EMPTY
        if is_asked:
            tree = drafter.propose(sequence, plan)
            check(tree, plan)
            twin = drafter_of(Trunk(ToyStep(LOGITS, limits)), asked[sequence], modes[sequence])
            assert same(tree, twin.draft(text, plan))
        nodes = line(tree, node % (len(tree) + 1) - 1)
        commit = commit_of([*tree.tokens[nodes].tolist(), bonus], nodes)
        drafter.anticipate(sequence, tree)
        drafter.observe(sequence, commit, NoRows(), np.arange(len(tree), dtype=np.int32))
        text += commit.tokens.tolist()
        assert 0 <= drafter.behind(sequence) < len(text)


def check(tree: DraftTree, plan: Plan) -> None:
    check_tree(tree, N_VOCAB)
    assert len(tree) <= plan.max_nodes
    assert len(leaves(tree)) <= plan.max_leaves


def line(tree: DraftTree, node: int) -> list[int]:
    return [*line(tree, int(tree.parents[node])), node] if node >= 0 else []


# -- answers do not depend on proposals ---------------------------------------------------------------------------


def near(model: ToyModel, noise: float) -> LogitsOf:
    """The target's own logits with an error: a draft that is often right."""
    error = hashed(model.n_vocab, 11, spread=noise)

    def logits_of(text: Text) -> FloatArray:
        row: FloatArray = np.maximum(model.logits(text), np.float32(-9.0)) + error(text)
        return row

    return logits_of


def answers(
    model: ToyModel, asked: Sequence[Asked], drafters: Sequence[Drafter], policy: FixedPolicy, max_leaves: int
) -> tuple[list[tuple[int, ...]], int]:
    """(each request's output, tokens that were drafted and accepted), all requests in one batch."""
    target = ToyTarget(model, Capabilities(100, N_VOCAB, 32, 16, max_leaves, can_rollback=True))
    loop = Loop(target, policy, PathVerifier(), clock=timeless)
    going: list[Drafting] = []
    for sequence, (one, drafter) in enumerate(zip(asked, drafters, strict=True)):
        if len(one.prompt) > 1:
            target.extend(sequence, prompt_of(one.prompt[:-1]))
        drafter.begin(sequence, prompt_of(one.prompt))
        law = Law(one.sampling)
        state = SequenceState.start(sequence, list(one.prompt), law, one.max_tokens, one.end_tokens)
        going.append(Drafting.of(state, (drafter,)))
    every = list(going)
    while going:
        loop.run(going)
        going = [one for one in going if one.state.finish is None and one.state.failure is None]
    outputs = [tuple(one.state.tokens[one.state.n_prompt :]) for one in every]
    return outputs, sum(one.state.counts.n_accepted for one in every)


models = st.builds(
    ToyModel,
    n_vocab=st.just(N_VOCAB),
    order=st.integers(1, 3),
    seed=st.integers(0, 10**6),
    n_levels=st.sampled_from([0, 3]),
)
requests = st.builds(
    Asked,
    st.lists(st.integers(0, N_VOCAB - 1), min_size=1, max_size=9).map(tuple),
    rows.settings(N_VOCAB),
    st.sampled_from([1, 5, 20]),
    st.sampled_from([frozenset(), frozenset({2})]),
)


@given(
    models,
    st.lists(requests, min_size=1, max_size=3),
    st.sampled_from(list(DraftMode)),
    st.sampled_from([0.0, 0.5, 4.0]),
    st.integers(1, N_VOCAB),
    st.integers(1, 3),
    st.integers(0, 9),
    st.booleans(),
)
def test_drafted_answers_are_the_plain_answers(
    model: ToyModel,
    asked: list[Asked],
    mode: DraftMode,
    noise: float,
    n_ranked: int,
    max_leaves: int,
    max_nodes: int,
    branches: bool,
) -> None:
    """Several requests of different laws share one network."""
    limits = toy_limits(N_VOCAB, n_ranked, n_ctx=24, max_rows=3, branches=branches)
    trunk = Trunk(ToyStep(near(model, noise), limits))
    plain = [plain_fast(model, one) for one in asked]
    drafters = [ModelDrafter(trunk, Law(one.sampling), timeless, mode) for one in asked]
    said, _ = answers(model, asked, drafters, FixedPolicy(max_nodes, max_leaves), max_leaves)
    for output, expected in zip(said, plain, strict=True):
        assert output == expected.output if expected.finish is not None else output == expected.output[: len(output)]


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.5])
@pytest.mark.parametrize("max_leaves", [1, 3])
def test_a_draft_that_equals_the_target_is_always_right(temperature: float, max_leaves: int) -> None:
    """Drafted with the target's own noise, at any temperature; every cell of a full chain is used again."""
    model = ToyModel(N_VOCAB, seed=4)
    sampling = SamplingSettings(temperature=temperature, top_p=0.95, repeat_penalty=1.1, seed=8)
    step = ToyStep(near(model, 0.0), toy_limits(N_VOCAB, max_chunk=1, max_rows=2))
    drafter = ModelDrafter(Trunk(step), Law(sampling), timeless)
    asked = Asked((1, 2), sampling, 40)
    (output,), n_accepted = answers(model, [asked], [drafter], FixedPolicy(3, max_leaves), max_leaves)
    assert output == plain_fast(model, asked).output
    if max_leaves == 1:
        assert n_accepted == 30
        assert step.n_rows + step.n_read == 2 + 2 + 9 * 4
    else:
        assert 20 < n_accepted <= 30


# -- the rest of the contract -------------------------------------------------------------------------------------


def test_begin_and_observe_read_nothing() -> None:
    step = ToyStep(LOGITS, toy_limits(N_VOCAB))
    drafter = drafter_of(Trunk(step))
    assert (drafter.name, drafter.needs) == ("toy", Needs.TOKENS)
    drafter.begin(0, prompt_of([1, 2, 3, 4]))
    assert drafter.behind(0) == 3
    drafter.observe(0, commit_of([5, 6]), NoRows(), np.empty(0, np.int32))
    assert drafter.behind(0) == 5
    assert drafter.propose(0, Plan(0)) is EMPTY
    assert step.n_runs == step.n_read == 0
    tree = drafter.propose(0, Plan(3))
    assert (len(tree), drafter.behind(0)) == (3, 0)
    drafter.observe(0, commit_of([*tree.tokens.tolist(), 6], [0, 1, 2]), NoRows(), np.arange(3, dtype=np.int32))
    assert drafter.behind(0) == 1  # the last node was never run


def test_a_sequence_that_ended_is_unknown() -> None:
    drafter = drafter_of(Trunk(ToyStep(LOGITS, toy_limits(N_VOCAB))))
    drafter.begin(4, prompt_of([1]))
    for _ in range(2):
        drafter.end(4)
    with pytest.raises(KeyError):
        drafter.propose(4, Plan(1))


def test_the_plans_deadline_counts_from_the_call() -> None:
    step = ToyStep(LOGITS, toy_limits(N_VOCAB))
    drafter = ModelDrafter(Trunk(step), Law(ASKED), iter(range(99)).__next__)
    drafter.begin(0, prompt_of([1, 2]))
    assert [len(drafter.propose(0, Plan(9, deadline_seconds=seconds))) for seconds in (3.0, 3.0, math.inf)] == [3, 3, 9]


def test_draws_of_its_own_follow_the_law_and_the_seed() -> None:
    p = np.array([0.1, 0.0, 0.6, 0.3])
    draws = [[draw(p) for _ in range(3000)] for draw in (seeded(1), seeded(1), seeded(2))]
    assert draws[0] == draws[1] != draws[2]
    assert deviates(np.bincount(draws[0], minlength=4), p) < 4.5


class Moody(ToyStep):
    """Returns NaN now and then, and raises now and then, with all cells lost."""

    def run(self, tokens: IntArray, start: int, parents: IntArray | None = None) -> Ranked:
        if self.n_runs % 7 == 5:
            self.n_runs += 1
            self.cells = []
            raise EngineFailure("the toy", "it lost its cells", "begin anew")
        ranked = super().run(tokens, start, parents)
        if self.n_runs % 5 == 4:
            return Ranked(ranked.ids, np.full_like(ranked.logits, np.nan), ranked.log_sums)
        return ranked


def test_a_network_that_fails_costs_drafts_and_no_token() -> None:
    model = ToyModel(N_VOCAB, seed=2)
    asked = Asked((3, 1), SamplingSettings(temperature=0.7, seed=1), 60)
    notices: list[Notice] = []
    step = Moody(near(model, 0.2), toy_limits(N_VOCAB))
    drafter = GuardedDrafter(drafter_of(Trunk(step), asked.sampling), N_VOCAB, timeless, notices.append)
    (output,), n_accepted = answers(model, [asked], [drafter], FixedPolicy(2), 1)
    assert output == plain_fast(model, asked).output
    assert [notice.code for notice in notices] == [RAISED]
    assert n_accepted > 0
    assert step.n_runs > 7
