"""A cascade proposes what its network would propose alone, in fewer passes; and the answer is the target's own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.backend.toy import ToyModel, ToyTarget
from edgespec.draft.cascade import CascadeDrafter
from edgespec.draft.lookup import LookupDrafter
from edgespec.draft.model import ModelDrafter
from edgespec.draft.trunk import Trunk
from edgespec.spec.cost import CostTable
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.measured import MeasuredPolicy
from edgespec.spec.policy import FixedPolicy
from edgespec.spec.ports import Capabilities, Drafter, FloatArray, IntArray, Plan
from edgespec.spec.round import Drafting, Loop
from edgespec.spec.sequence import SequenceState
from edgespec.spec.step import Ranked
from edgespec.spec.tree import EMPTY
from edgespec.spec.verify import PathVerifier
from tests.draft.fake import NoRows, commit_of, prompt_of
from tests.draft.test_model import same, timeless
from tests.draft.toy_step import LogitsOf, Text, ToyStep, hashed, toy_limits
from tests.spec.plain_decoding import Asked, plain_fast

N_VOCAB = 6
LIMITS = toy_limits(N_VOCAB, n_ctx=120, max_rows=6, max_chunk=5, branches=False)


def last_two(seed: int) -> LogitsOf:
    """Logits of the last two tokens only, so that texts repeat themselves and a look-up has something to copy."""
    logits = hashed(N_VOCAB, seed)
    return lambda text: logits(text[-2:])


def cascade(trunk: Trunk, law: Law, inner: tuple[Drafter, ...] = (), max_nodes: int = 4) -> CascadeDrafter:
    return CascadeDrafter(trunk, law, inner, FixedPolicy(max_nodes), timeless)


sampling = st.builds(
    SamplingSettings,
    temperature=st.sampled_from([0.0, 0.8]),
    top_p=st.sampled_from([1.0, 0.7]),
    presence_penalty=st.sampled_from([0.0, 0.6]),
    seed=st.integers(0, 3),
)
texts = st.lists(st.integers(0, N_VOCAB - 1), min_size=1, max_size=30)


@given(
    texts,
    sampling,
    st.integers(0, 5),
    st.integers(0, 9),
    st.floats(0.0, 0.5),
    st.lists(st.tuples(st.integers(0, N_VOCAB - 1), st.integers(1, 3)), max_size=4),
)
def test_it_proposes_what_its_network_proposes_alone(
    text: list[int],
    settings: SamplingSettings,
    seed: int,
    n_nodes: int,
    least: float,
    commits: list[tuple[int, int]],
) -> None:
    law, plan = Law(settings), Plan(n_nodes, 1, min_survival=least)
    middle = ModelDrafter(Trunk(ToyStep(last_two(seed + 10), LIMITS)), law, timeless)
    levels = cascade(Trunk(ToyStep(last_two(seed), LIMITS)), law, (LookupDrafter(), middle))
    alone = ModelDrafter(Trunk(ToyStep(last_two(seed), LIMITS)), law, timeless)
    for drafter in (levels, alone):
        drafter.begin(1, prompt_of(text))
    for token, n in [(0, 0), *commits]:
        if n:
            for drafter in (levels, alone):
                drafter.observe(1, commit_of([token] * n, []), NoRows(), np.empty(0, np.int32))
        assert levels.behind(1) >= 0
        assert same(levels.propose(1, plan), alone.propose(1, plan))
    levels.end(1)
    with pytest.raises(KeyError):
        levels.propose(1, plan)


def test_on_text_that_repeats_it_needs_fewer_passes() -> None:
    law = Law(SamplingSettings())
    text = [0, 1, 2, 3, 4] * 6
    follows = lambda text: (np.arange(N_VOCAB) == (text[-1] + 1) % 5).astype(np.float32) * 5.0  # noqa: E731
    step, alone = ToyStep(follows, LIMITS), ToyStep(follows, LIMITS)
    levels = cascade(Trunk(step), law, (LookupDrafter(),))
    plain = ModelDrafter(Trunk(alone), law, timeless)
    for drafter in (levels, plain):
        drafter.begin(1, prompt_of(text))
        assert drafter.propose(1, Plan(10)).tokens.tolist() == [0, 1, 2, 3, 4] * 2
    assert (levels.n_inner_passes, levels.n_drafted) == (2, 10)
    assert step.n_runs < alone.n_runs


def test_a_proposal_that_stops_early_leaves_nothing_open_in_the_inner_policy() -> None:
    """The next one begins anew from another text: what was guessed for this one must not be scored against it."""
    narrow = CostTable((0,), (1, 2, 3, 6), ((1.0, 1.05, 1.1, 16.0),))
    policy = MeasuredPolicy(narrow)
    ranks = np.arange(N_VOCAB)
    follows = lambda text: (ranks == (text[-1] + 1) % 5).astype(np.float32) * 3.0  # noqa: E731
    law = Law(SamplingSettings())
    levels = CascadeDrafter(Trunk(ToyStep(follows, LIMITS)), law, (LookupDrafter(),), policy, timeless)
    levels.begin(1, prompt_of([0, 1, 2, 3, 4] * 6))
    for _ in range(9):
        assert len(levels.propose(1, Plan(20, min_survival=0.4))) < 20
        assert policy.lets_rest(1)
        assert not policy._books.accounts._accounts
        levels.observe(1, commit_of([5], []), NoRows(), np.empty(0, np.int32))
        levels.observe(1, commit_of([0, 1, 2, 3, 4] * 2, []), NoRows(), np.empty(0, np.int32))


def test_without_room_or_nodes_it_says_nothing() -> None:
    law = Law(SamplingSettings())
    levels = cascade(Trunk(ToyStep(last_two(1), LIMITS)), law)
    levels.begin(1, prompt_of([0] * 121))
    assert levels.propose(1, Plan(4)) is EMPTY
    levels.begin(2, prompt_of([0] * 120))
    assert len(levels.propose(2, Plan(4))) == 1
    assert levels.propose(2, Plan(0)) is EMPTY
    levels.begin(3, prompt_of([]))
    assert levels.propose(3, Plan(4)) is EMPTY


def test_a_deadline_leaves_what_was_read_and_ends_a_chain_early() -> None:
    now = [0.0]

    class Slow(ToyStep):
        def run(self, tokens: IntArray, start: int, parents: IntArray | None = None) -> Ranked:
            now[0] += 1.0
            return super().run(tokens, start, parents)

        def read(self, tokens: IntArray, start: int) -> None:
            now[0] += 1.0
            super().read(tokens, start)

    step = Slow(last_two(1), LIMITS)
    levels = CascadeDrafter(Trunk(step), Law(SamplingSettings()), (), FixedPolicy(0), lambda: now[0])
    levels.begin(1, prompt_of([0, 1] * 12))
    assert levels.propose(1, Plan(4, deadline_seconds=2.5)) is EMPTY
    assert levels.behind(1) < 23
    levels.propose(1, Plan(4, deadline_seconds=99.0))
    levels.observe(1, commit_of([5], []), NoRows(), np.empty(0, np.int32))
    assert len(levels.propose(1, Plan(9, deadline_seconds=3.5))) == 3


@given(sampling, st.integers(0, 3), st.integers(0, 3))
def test_the_answer_is_the_targets_own(settings: SamplingSettings, seed: int, draft_seed: int) -> None:
    model = ToyModel(n_vocab=N_VOCAB, order=2, seed=seed)
    limits = Capabilities(n_ctx=90, n_vocab=N_VOCAB, max_rows=8, max_chunk=64, max_leaves=1, can_rollback=True)
    target, law, prompt = ToyTarget(model, limits), Law(settings), [1, 2, 3]

    def logits(text: Text) -> FloatArray:
        return model.logits(text) + last_two(draft_seed)(text)

    levels = cascade(Trunk(ToyStep(logits, LIMITS)), law, (LookupDrafter(),))
    target.extend(1, np.array(prompt[:-1], np.int32))
    state = SequenceState.start(1, prompt, law, 24, frozenset())
    levels.begin(1, prompt_of(prompt))
    loop = Loop(target, FixedPolicy(5), PathVerifier(), timeless)
    while state.finish is None:
        loop.run([Drafting.of(state, (levels,))])
    assert tuple(state.tokens[3:]) == plain_fast(model, Asked(tuple(prompt), settings, 24)).output
