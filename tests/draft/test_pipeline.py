"""The schedule of a pipelined drafter: what it has ready, when it waits and how long; texts do not depend on it."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.backend.toy import ToyModel, ToyTarget
from edgespec.draft.ahead import Ahead, Branch
from edgespec.draft.guard import GuardedDrafter
from edgespec.draft.messages import Wanted
from edgespec.draft.model import ModelDrafter
from edgespec.draft.outcomes import DepthRates
from edgespec.draft.pipeline import Pipeline, PipelinedDrafter
from edgespec.draft.sparse import SparseLaw
from edgespec.draft.trunk import Trunk
from edgespec.events import Notice
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.policy import FixedPolicy
from edgespec.spec.ports import Capabilities, Drafter, Needs, Plan, Rows, VerifyRequest
from edgespec.spec.round import Drafting, Loop
from edgespec.spec.sequence import SequenceState
from edgespec.spec.step import StepLimits, StepModel
from edgespec.spec.tree import EMPTY, DraftMode, DraftTree, chain, tree_of
from edgespec.spec.verify import PathVerifier
from tests.draft.fake import NoRows, commit_of, prompt_of
from tests.draft.held_step import HeldStep, Turnstile, until
from tests.draft.near_draft import N_VOCAB, near
from tests.draft.toy_step import ToyStep, hashed, toy_limits
from tests.spec import rows
from tests.spec.plain_decoding import Asked, plain_fast

LOGITS = hashed(N_VOCAB, 3)
GREEDY = Law(SamplingSettings())


def toy(max_chunk: int = 16, max_rows: int = 8, branches: bool = True) -> ToyStep:
    return ToyStep(LOGITS, toy_limits(N_VOCAB, 4, max_chunk=max_chunk, max_rows=max_rows, branches=branches))


@contextmanager
def opened(step: StepModel, law: Law = GREEDY) -> Iterator[tuple[Pipeline, PipelinedDrafter]]:
    with closing(Pipeline(lambda: step)) as pipeline:
        yield pipeline, PipelinedDrafter(pipeline, law)


def settled(pipeline: Pipeline) -> None:
    until(lambda: pipeline.is_quiet)


def draft_behind(text: Sequence[int], n: int, law: Law = GREEDY) -> list[int]:
    """The draft of a drafter that reads everything anew."""
    tree = ModelDrafter(Trunk(toy()), law, lambda: 0.0).draft(list(text), Plan(n))
    tokens: list[int] = tree.tokens.tolist()
    return tokens


def observe(drafter: Drafter, tree: DraftTree, path: Sequence[int], bonus: int) -> list[int]:
    """Tell of a commit; returns its tokens."""
    tokens = [*tree.tokens[list(path)].tolist(), bonus]
    drafter.observe(0, commit_of(tokens, path), NoRows(), np.arange(len(tree), dtype=np.int32))
    return tokens


# -- what is ready ------------------------------------------------------------------------------------------------


def test_a_draft_is_made_just_in_time_and_is_the_serial_one() -> None:
    with opened(toy()) as (pipeline, drafter):
        assert (drafter.name, drafter.needs) == ("draft", Needs.TOKENS)
        drafter.begin(0, prompt_of([1, 2, 3]))
        assert drafter.behind(0) == 0
        settled(pipeline)
        assert pipeline.n_unread(0) == 0
        tree = drafter.propose(0, Plan(4))
        assert tree.tokens.tolist() == draft_behind([1, 2, 3], 4)
        assert tree.mode is DraftMode.POINT
        assert drafter.propose(0, Plan(2)).tokens.tolist() == tree.tokens.tolist()[:2]
        assert drafter.propose(0, Plan(0)) is EMPTY
        assert len(drafter.propose(0, Plan(9, min_survival=0.1))) < 9
        assert pipeline.counts.wait_seconds > 0.0


@pytest.mark.parametrize("branches", [True, False])
@pytest.mark.parametrize("n_accepted", [0, 2, 4])
@pytest.mark.parametrize("rank", [0, 1])
def test_the_branch_that_came_true_is_the_next_proposal_without_a_call(
    branches: bool, n_accepted: int, rank: int
) -> None:
    """Behind the whole draft its own next guess, elsewhere the tokens it ranked next."""
    gate = Turnstile()
    step = HeldStep(toy(branches=branches), gate)
    with opened(step) as (pipeline, drafter):
        gate.let(1000)
        drafter.begin(0, prompt_of([1, 2, 3]))
        settled(pipeline)
        tree = drafter.propose(0, Plan(4))
        drafter.anticipate(0, tree)
        settled(pipeline)
        text = [1, 2, 3, *tree.tokens.tolist()[:n_accepted]]
        ranked = np.argsort(-LOGITS(tuple(text)), kind="stable").tolist()
        bonus = ranked[rank] if n_accepted == 4 else ranked[rank + 1]
        n_calls = step.n_calls
        text += observe(drafter, tree, range(n_accepted), bonus)[n_accepted:]
        found = drafter.propose(0, Plan(3))
        assert found.tokens.tolist() == draft_behind(text, 3)
        assert step.n_calls == n_calls
        counts = pipeline.counts
        assert (counts.n_hits, counts.n_full_hits, counts.n_misses) == (1, int(n_accepted == 4), 0)
        drafter.anticipate(0, found)
        settled(pipeline)
        observe(drafter, found, [], ranked[-1] if ranked[-1] not in found.tokens[:1] else ranked[-2])


def test_a_miss_is_drafted_just_in_time() -> None:
    with opened(toy()) as (pipeline, drafter):
        drafter.begin(0, prompt_of([1, 2, 3]))
        settled(pipeline)
        tree = drafter.propose(0, Plan(4))
        drafter.anticipate(0, tree)
        settled(pipeline)
        worst = int(np.argmin(LOGITS((1, 2, 3, *tree.tokens.tolist()))))
        text = [1, 2, 3, *observe(drafter, tree, range(4), worst)]
        assert drafter.propose(0, Plan(4)).tokens.tolist() == draft_behind(text, 4)
        assert (pipeline.counts.n_hits, pipeline.counts.n_misses) == (0, 1)


def first_branch(text: list[int], draft: list[int], n_steps: int) -> Branch:
    """What the first n_steps beside a pass make of the likeliest outcome."""
    law = SparseLaw(GREEDY, DraftMode.COUPLED, lambda _: 0)
    ahead = Ahead(Trunk(toy()), law, text, DepthRates(), 1)
    ahead.verify(draft, Wanted(4))
    grown = [one for _ in range(1 + n_steps) for one in ahead.step(lambda: True)]
    return grown[0]


@pytest.mark.parametrize(("at_once", "n_wanted"), [(0.0, 9), (0.5, 2)])
def test_a_branch_that_is_half_done_is_proposed_at_once_or_waited_for(at_once: float, n_wanted: int) -> None:
    gate = Turnstile()
    with closing(Pipeline(lambda: HeldStep(toy(), gate), at_once=at_once)) as pipeline:
        drafter = PipelinedDrafter(pipeline, GREEDY)
        gate.let(4)  # one token of the draft each
        drafter.begin(0, prompt_of([1, 2, 3]))
        settled(pipeline)
        tree = drafter.propose(0, Plan(4))
        drafter.anticipate(0, tree)
        gate.let(3)  # what follows the draft, and two tokens
        gate.wait_for(8)
        branch = first_branch([1, 2, 3], tree.tokens.tolist(), 2)
        assert branch.tokens
        text = [1, 2, 3, *observe(drafter, tree, range(branch.n_accepted), branch.token)]
        found = drafter.propose(0, Plan(n_wanted)).tokens.tolist()  # though no call may go on
        assert found == branch.tokens[:n_wanted]
        assert pipeline.counts.n_hits == 1
        if at_once:
            gate.open()
            found = drafter.propose(0, Plan(8)).tokens.tolist()
            assert len(found) >= 4
            assert found == draft_behind(text, len(found))
        gate.open()


def test_other_drafts_are_gone_on_from_too() -> None:
    """What another drafter guessed, or a part of a merged tree, is verified: its first branch counts."""
    with opened(toy()) as (pipeline, drafter):
        drafter.begin(0, prompt_of([1, 2, 3]))
        settled(pipeline)
        own = drafter.propose(0, Plan(3))
        foreign = [int(own.tokens[0]), (int(own.tokens[1]) + 1) % N_VOCAB, 5]
        tree = tree_of([*foreign, 6], [-1, 0, 1, 0], [0.9, 0.8, 0.7, 0.1])
        drafter.anticipate(0, tree)
        settled(pipeline)
        bonus = draft_behind([1, 2, 3, *foreign], 1)[0]
        text = [1, 2, 3, *observe(drafter, tree, [0, 1, 2], bonus)]
        assert drafter.propose(0, Plan(3)).tokens.tolist() == draft_behind(text, 3)
        assert pipeline.counts.n_full_hits == 1
        # Now a side branch is accepted: that is a miss, and the text is followed.
        drafter.anticipate(0, tree)
        text += observe(drafter, tree, [0, 3], 2)
        assert drafter.propose(0, Plan(3)).tokens.tolist() == draft_behind(text, 3)
        assert pipeline.counts.n_misses == 1


def test_commits_without_a_pass_are_followed() -> None:
    """A guard keeps its drafter out of rounds, but tells it of every commit."""
    with opened(toy()) as (pipeline, drafter):
        drafter.begin(0, prompt_of([1]))
        text = [1]
        for bonus in (3, 3, 4):
            text += observe(drafter, EMPTY, [], bonus)
        assert pipeline.counts.n_misses == 0
        settled(pipeline)
        assert drafter.propose(0, Plan(5)).tokens.tolist() == draft_behind(text, 5)


def test_coupled_drafts_carry_their_mode() -> None:
    law = Law(SamplingSettings(temperature=0.9, seed=4, repeat_penalty=1.2))
    with opened(toy(), law) as (pipeline, drafter):
        drafter.begin(0, prompt_of([1, 2, 3]))
        settled(pipeline)
        tree = drafter.propose(0, Plan(5))
        assert tree.mode is DraftMode.COUPLED
        assert tree.tokens.tolist() == draft_behind([1, 2, 3], 5, law)


# -- when it waits ------------------------------------------------------------------------------------------------


def test_the_prompt_is_read_beside_the_target_and_proposals_before_that_are_empty_at_once() -> None:
    gate = Turnstile()
    step = HeldStep(toy(max_chunk=4, max_rows=4), gate)
    with opened(step) as (pipeline, drafter):
        drafter.begin(0, prompt_of([1, 2, 3, 4] * 3))
        gate.wait_for(1)
        assert drafter.propose(0, Plan(4)) is EMPTY
        assert pipeline.n_unread(0) == 11
        gate.let(1)
        gate.wait_for(2)
        until(lambda: pipeline.n_unread(0) == 7)
        assert drafter.propose(0, Plan(4)) is EMPTY
        observe(drafter, EMPTY, [], 5)  # the answer goes on meanwhile
        gate.open()
        settled(pipeline)
        assert pipeline.n_unread(0) == 0
        assert drafter.propose(0, Plan(4)).tokens.tolist() == draft_behind([*[1, 2, 3, 4] * 3, 5], 4)


def test_a_cancelled_request_stops_the_reading_and_ending_waits_for_nothing() -> None:
    gate = Turnstile()
    step = HeldStep(toy(max_chunk=2, max_rows=2), gate)
    with opened(step) as (pipeline, drafter):
        drafter.begin(0, prompt_of([1, 2] * 20))
        gate.wait_for(1)
        drafter.end(0)
        drafter.end(0)
        gate.let(1)
        settled(pipeline)
        assert step.n_calls == 1
        gate.open()
        drafter.begin(0, prompt_of([5, 6]))
        settled(pipeline)
        assert drafter.propose(0, Plan(2)).tokens.tolist() == draft_behind([5, 6], 2)
        with pytest.raises(KeyError):
            drafter.propose(1, Plan(2))


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_proposal_waits_no_longer_than_its_deadline() -> None:
    clock = Clock()
    gate = Turnstile()

    def before(n_call: int) -> None:
        if n_call == 4:
            clock.now += 5.0
        gate(n_call)

    gate.let(4)
    with closing(Pipeline(lambda: HeldStep(toy(), before), clock=clock)) as pipeline:
        drafter = PipelinedDrafter(pipeline, GREEDY)
        drafter.begin(0, prompt_of([1, 2, 3]))
        settled(pipeline)
        tree = drafter.propose(0, Plan(9, deadline_seconds=6.0))
        assert tree.tokens.tolist() == draft_behind([1, 2, 3], 4)  # what was there at 4/5 of the deadline
        assert pipeline.counts.wait_seconds == 5.0
        drafter.anticipate(0, tree)
        text = [1, 2, 3, *observe(drafter, tree, [], 0)]
        assert drafter.propose(0, Plan(3, deadline_seconds=0.0)) is EMPTY
        gate.open()
        assert drafter.propose(0, Plan(3)).tokens.tolist() == draft_behind(text, 3)


def test_it_works_on_while_the_target_computes_and_only_its_thread_touches_the_network() -> None:
    gate = Turnstile()
    step = HeldStep(toy(), gate)
    with opened(step) as (pipeline, drafter):
        gate.let(100)
        drafter.begin(0, prompt_of([1, 2, 3]))
        settled(pipeline)
        drafter.anticipate(0, drafter.propose(0, Plan(3)))
        n_calls = step.n_calls
        until(lambda: step.n_calls > n_calls)  # this thread, the target's, does nothing
        gate.open()
    assert step.n_closed == 1
    assert len(step.threads) == 1
    assert threading.get_ident() not in step.threads


# -- several requests ---------------------------------------------------------------------------------------------


def test_two_short_requests_share_the_worker() -> None:
    with opened(toy()) as (pipeline, drafter):
        other = PipelinedDrafter(pipeline, Law(SamplingSettings(temperature=1.0, seed=1)))
        drafter.begin(0, prompt_of([1, 2]))
        other.begin(1, prompt_of([3, 4]))
        settled(pipeline)
        for text in ([1, 2], [1, 2]):
            assert drafter.propose(0, Plan(3)).tokens.tolist() == draft_behind(text, 3)
            law = Law(SamplingSettings(temperature=1.0, seed=1))
            assert other.propose(1, Plan(3)).tokens.tolist() == draft_behind([3, 4], 3, law)


def test_a_long_request_keeps_the_worker_until_it_is_not_asked_for_any_more() -> None:
    with opened(toy(max_chunk=4, max_rows=2)) as (pipeline, drafter):
        drafter.begin(0, prompt_of([1, 2] * 10))
        settled(pipeline)
        drafter.begin(1, prompt_of([3, 4] * 10))
        settled(pipeline)
        assert pipeline.n_unread(1) == 19
        for _ in range(8):
            assert drafter.propose(1, Plan(3)) is EMPTY
            settled(pipeline)
        assert drafter.propose(0, Plan(3)).tokens.tolist() == draft_behind([1, 2] * 10, 3)
        n_empty = 0
        while drafter.propose(1, Plan(3)) is EMPTY:
            settled(pipeline)
            n_empty += 1
        assert n_empty == 9
        assert drafter.propose(1, Plan(3)).tokens.tolist() == draft_behind([3, 4] * 10, 3)
        drafter.end(1)
        drafter.propose(0, Plan(3))
        settled(pipeline)
        assert drafter.propose(0, Plan(3)).tokens.tolist() == draft_behind([1, 2] * 10, 3)


# -- the text does not depend on the schedule ---------------------------------------------------------------------


class TimedTarget(ToyTarget):
    """A target whose passes call `meanwhile` first, as if they took that long."""

    meanwhile: Callable[[], None]

    def verify(self, requests: Sequence[VerifyRequest], width: int) -> list[Rows]:
        self.meanwhile()
        return super().verify(requests, width)


def answers(
    model: ToyModel,
    asked: Sequence[Asked],
    drafters: Sequence[Drafter],
    n_nodes: int,
    meanwhile: Callable[[], None],
    policy: FixedPolicy | None = None,
) -> list[SequenceState]:
    """Every request's end, all in one batch."""
    target = TimedTarget(model, Capabilities(200, N_VOCAB, 32, 16, 2, can_rollback=True))
    target.meanwhile = meanwhile
    loop = Loop(target, policy or FixedPolicy(n_nodes), PathVerifier(), clock=lambda: 0.0)
    going: list[Drafting] = []
    for sequence, (one, drafter) in enumerate(zip(asked, drafters, strict=True)):
        drafter.begin(sequence, prompt_of(one.prompt))
        meanwhile()
        if len(one.prompt) > 1:
            target.extend(sequence, prompt_of(one.prompt[:-1]))
        law = Law(one.sampling)
        state = SequenceState.start(sequence, list(one.prompt), law, one.max_tokens, one.end_tokens)
        going.append(Drafting.of(state, (drafter,)))
    every = list(going)
    while going:
        loop.run(going)
        for one_done in going:
            if one_done.state.finish is not None or one_done.state.failure is not None:
                one_done.drafters[0].end(one_done.state.id)
        going = [one for one in going if one.state.finish is None and one.state.failure is None]
    return [one.state for one in every]


def output(state: SequenceState) -> tuple[int, ...]:
    return tuple(state.tokens[state.n_prompt :])


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
limits = st.builds(
    toy_limits,
    st.just(N_VOCAB),
    st.integers(1, N_VOCAB),
    n_ctx=st.sampled_from([12, 200]),
    max_rows=st.integers(1, 4),
    max_chunk=st.integers(1, 5),
    branches=st.booleans(),
)


def complain(notice: Notice) -> None:
    raise AssertionError(notice.message)


def agree(model: ToyModel, asked: Sequence[Asked], ends: Sequence[SequenceState]) -> None:
    for one, end in zip(asked, ends, strict=True):
        plain = plain_fast(model, one)
        said = output(end)
        assert said == plain.output if plain.finish is not None else said == plain.output[: len(said)]


@settings(max_examples=40)
@given(
    models,
    st.lists(requests, min_size=1, max_size=3),
    limits,
    st.sampled_from([0.0, 0.5, 4.0]),
    st.integers(1, 6),
    st.integers(0, 10**6),
)
def test_plain_serial_and_pipelined_say_the_same_at_random_speeds(
    model: ToyModel, asked: list[Asked], limits: StepLimits, noise: float, n_nodes: int, seed: int
) -> None:
    chance = random.Random(seed)
    ours, theirs = chance.choice([0.0, 1e-4, 4e-4]), chance.choice([0.0, 1e-4, 1e-3])

    def pause(longest: float) -> None:
        time.sleep(chance.random() * longest)

    serial = [ModelDrafter(Trunk(ToyStep(near(model, noise), limits)), Law(one.sampling), lambda: 0.0) for one in asked]
    agree(model, asked, answers(model, asked, serial, n_nodes, lambda: None))
    step = HeldStep(ToyStep(near(model, noise), limits), lambda _: pause(ours))
    with closing(Pipeline(lambda: step, rows_at_once=chance.randint(1, 3))) as pipeline:
        drafters = [
            GuardedDrafter(PipelinedDrafter(pipeline, Law(one.sampling)), N_VOCAB, lambda: 0.0, complain)
            for one in asked
        ]
        agree(model, asked, answers(model, asked, drafters, n_nodes, lambda: pause(theirs)))


class Impatient(FixedPolicy):
    """Gives every drafter a millisecond or so."""

    def plan(self, *args: Any, **kwargs: Any) -> Plan:
        plan = super().plan(*args, **kwargs)
        return Plan(plan.max_nodes, plan.max_leaves, deadline_seconds=0.002)


@settings(max_examples=60)
@given(models, requests, limits, st.lists(st.integers(0, 12), min_size=1, max_size=40), st.integers(1, 6))
def test_the_text_is_the_same_in_every_order_of_events(
    model: ToyModel, asked: Asked, limits: StepLimits, order: list[int], n_nodes: int
) -> None:
    """So many steps of the network are let through during each pass of the target, and none between them."""
    gate = Turnstile()
    step = HeldStep(ToyStep(near(model, 0.5), limits), gate)
    left = iter(order)
    with closing(Pipeline(lambda: step)) as pipeline:

        def meanwhile() -> None:
            n = next(left, None)
            if n is None:
                gate.open()
                return
            gate.let(n)
            until(lambda: pipeline.is_quiet or gate.is_full)

        drafter = GuardedDrafter(PipelinedDrafter(pipeline, Law(asked.sampling)), N_VOCAB, lambda: 0.0, complain)
        agree(model, [asked], answers(model, [asked], [drafter], n_nodes, meanwhile, Impatient(n_nodes)))
        gate.open()


def test_a_draft_that_equals_the_target_is_accepted_whole_and_mostly_ready() -> None:
    model = ToyModel(N_VOCAB, seed=4)
    sampling = SamplingSettings(temperature=0.7, top_p=0.95, seed=8)
    step = ToyStep(near(model, 0.0), toy_limits(N_VOCAB))
    asked = Asked((1, 2), sampling, 60)
    with closing(Pipeline(lambda: step)) as pipeline:
        drafter = PipelinedDrafter(pipeline, Law(sampling))
        (end,) = answers(model, [asked], [drafter], 4, lambda: settled(pipeline))
        counts = pipeline.counts
    assert output(end) == plain_fast(model, asked).output
    assert end.counts.passes == 12
    assert end.counts.n_accepted == 48
    assert (counts.n_hits, counts.n_full_hits) == (12, 12)


def test_verified_chains_are_told_from_trees() -> None:
    """An empty tree, and one whose first node has a sibling."""
    with opened(toy()) as (pipeline, drafter):
        drafter.begin(0, prompt_of([1, 2]))
        for tree in (EMPTY, tree_of([1, 2], [-1, -1], [0.5, 0.4]), chain([3], [1.0])):
            drafter.anticipate(0, tree)
            settled(pipeline)
            observe(drafter, tree, [], 4)
        found = drafter.propose(0, Plan(2)).tokens.tolist()
        assert found == draft_behind([1, 2, 4, 4, 4], len(found))
