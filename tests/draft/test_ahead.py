"""Whatever is asked, verified and committed: each branch is the draft of a drafter that reads everything anew."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.draft.ahead import Ahead, Branch
from edgespec.draft.messages import Wanted
from edgespec.draft.model import ModelDrafter, seeded
from edgespec.draft.outcomes import DepthRates
from edgespec.draft.sparse import SparseLaw
from edgespec.draft.trunk import Trunk
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.ports import Plan
from edgespec.spec.step import StepLimits
from edgespec.spec.tree import DraftMode
from tests.draft.toy_step import ToyStep, hashed, toy_limits

N_VOCAB = 7
LOGITS = hashed(N_VOCAB, 3)


def yes() -> bool:
    return True


def ahead_of(step: ToyStep, text: list[int], sampling: SamplingSettings, rows_at_once: int = 1) -> Ahead:
    law = SparseLaw(Law(sampling), DraftMode.COUPLED, seeded(0))
    return Ahead(Trunk(step), law, text, DepthRates(), rows_at_once)


def check(ahead: Ahead, branch: Branch, limits: StepLimits, sampling: SamplingSettings) -> None:
    twin = ModelDrafter(Trunk(ToyStep(LOGITS, limits)), Law(sampling), lambda: 0.0)
    tree = twin.draft(ahead.text + branch.prefix, Plan(len(branch.tokens)))
    assert branch.tokens == tree.tokens.tolist()
    assert branch.survival == pytest.approx(tree.survival.tolist())


actions = st.tuples(
    st.sampled_from(["ask", "verify", "verify", "commit", "commit", "hit"]),
    st.integers(0, 9),  # steps done before it
    st.integers(0, 5),  # tokens wanted, or of the own draft that are verified
    st.lists(st.integers(0, N_VOCAB - 1), max_size=3),  # then these
    st.integers(0, 99),  # which outcome
)


@given(
    st.lists(actions, max_size=14),
    st.lists(st.integers(0, N_VOCAB - 1), min_size=1, max_size=20),
    st.sampled_from([0.0, 0.9]),
    st.tuples(st.integers(1, 4), st.integers(1, 6), st.sampled_from([30, 200])),
    st.booleans(),
    st.integers(1, 4),
)
def test_each_branch_is_what_reading_everything_anew_gives(
    played: list[tuple[str, int, int, list[int], int]],
    text: list[int],
    temperature: float,
    sizes: tuple[int, int, int],
    branches: bool,
    rows_at_once: int,
) -> None:
    max_rows, max_chunk, n_ctx = sizes
    limits = toy_limits(N_VOCAB, 4, n_ctx=n_ctx, max_rows=max_rows, max_chunk=max_chunk, branches=branches)
    sampling = SamplingSettings(temperature=temperature, seed=2, repeat_penalty=1.1)
    ahead = ahead_of(ToyStep(LOGITS, limits), list(text), sampling, rows_at_once)
    expected = list(text)
    known: list[Branch] = []
    verified: list[int] | None = None
    patience = iter([n % 3 > 0 for n in range(10_000)])
    for kind, n_steps, n, more, choice in played:
        for _ in range(n_steps):
            if ahead.has_work:
                grown = ahead.step(patience.__next__)
                known += [one for one in grown if not any(one is other for other in known)]
                for one in grown:
                    check(ahead, one, limits, sampling)
        if kind == "ask":
            ahead.ask(Wanted(n))
        elif kind == "verify":
            verified = [*ahead.root.tokens[:n], *more]
            known = list(ahead.verify(verified, Wanted(n) if n else None))
            for one in known:
                check(ahead, one, limits, sampling)
        elif kind == "hit" and known and verified is not None:
            hit = known[choice % len(known)]
            before = list(hit.tokens)
            ahead.commit(hit.n_accepted, hit.prefix)
            expected += hit.prefix
            assert ahead.root.tokens == before
            known, verified = [], None
        elif kind == "commit":
            i = choice % (len(verified or ()) + 2) - 1
            tokens = [*(verified or [])[: max(0, i)], choice % N_VOCAB]
            ahead.commit(i, tokens)
            expected += tokens
            known, verified = [], None
        assert ahead.text == expected
        check(ahead, ahead.root, limits, sampling)


@pytest.mark.parametrize("branches", [True, False])
@pytest.mark.parametrize("rows_at_once", [1, 4])
def test_while_a_draft_is_verified_the_likeliest_outcomes_are_worked_out(branches: bool, rows_at_once: int) -> None:
    step = ToyStep(LOGITS, toy_limits(N_VOCAB, 4, branches=branches))
    ahead = ahead_of(step, [1, 2, 3], SamplingSettings())
    ahead.ask(Wanted(4))
    while ahead.has_work:
        ahead.step(yes)
    draft = list(ahead.root.tokens)
    assert len(draft) == 4
    ahead = ahead_of(step, [1, 2, 3], SamplingSettings(), rows_at_once)
    ahead.verify(draft, Wanted(3))
    order: list[Branch] = []
    n_rows = step.n_rows
    while ahead.has_work:
        order += [one for one in ahead.step(yes) if not any(one is other for other in order)]
    assert len(order) == 4 * 3 + 4  # four ranked tokens behind each of five places, but for the drafted ones
    assert all(len(one.tokens) == 3 for one in order)
    chances = [one.chance for one in order]
    assert chances == sorted(chances, reverse=True)
    if branches:
        # Each row was run once and none again: the new text's, the draft's, three per branch.
        assert step.n_rows - n_rows == 3 + len(draft) + 3 * len(order)


def test_a_longer_draft_than_was_verified_goes_on_without_a_step() -> None:
    step = ToyStep(LOGITS, toy_limits(N_VOCAB, 4))
    ahead = ahead_of(step, [1, 2, 3], SamplingSettings())
    ahead.ask(Wanted(6))
    while ahead.has_work:
        ahead.step(yes)
    own = list(ahead.root.tokens)
    (rest,) = ahead.verify(own[:2], Wanted(3))
    assert (rest.n_accepted, rest.token, rest.tokens) == (2, own[2], own[3:])
    n_runs = step.n_runs
    ahead.commit(2, own[:3])
    assert ahead.root.tokens == own[3:]
    assert not ahead.has_work
    assert step.n_runs == n_runs


def test_tokens_that_came_without_a_pass_leave_the_rest_of_the_draft() -> None:
    ahead = ahead_of(ToyStep(LOGITS, toy_limits(N_VOCAB, 4)), [1, 2, 3], SamplingSettings())
    ahead.ask(Wanted(4))
    while ahead.has_work:
        ahead.step(yes)
    own = list(ahead.root.tokens)
    ahead.commit(-1, own[:2])
    assert ahead.root.tokens == own[2:]
    ahead.commit(-1, [(own[2] + 1) % N_VOCAB])
    assert ahead.root.tokens == []


def test_it_rests_when_nobody_asks_for_a_while() -> None:
    ahead = ahead_of(ToyStep(LOGITS, toy_limits(N_VOCAB, 4)), [1, 2], SamplingSettings())
    worked = []
    for _ in range(12):
        ahead.verify([], None)
        worked.append(ahead.has_work)
        ahead.commit(0, [1])
    assert worked == [True] * 8 + [False] * 4
    ahead.ask(Wanted(1))
    assert ahead.has_work


def test_a_text_that_does_not_fit_makes_no_work() -> None:
    ahead = ahead_of(ToyStep(LOGITS, toy_limits(N_VOCAB, 4, n_ctx=4)), [1, 2, 3], SamplingSettings())
    ahead.ask(Wanted(5))
    while ahead.has_work:
        ahead.step(yes)
    assert len(ahead.root.tokens) == 2
    ahead.commit(-1, [1, 1])
    assert not ahead.has_work
    assert ahead.is_finished(ahead.root)
    assert ahead.n_behind == 0


def test_a_draft_ends_before_an_unlikely_token() -> None:
    ahead = ahead_of(ToyStep(LOGITS, toy_limits(N_VOCAB, 4)), [1, 2, 3], SamplingSettings())
    ahead.ask(Wanted(9, 0.1))
    while ahead.has_work:
        ahead.step(yes)
    assert 0 < len(ahead.root.tokens) < 9
    assert min(ahead.root.survival) >= 0.1
    assert ahead.is_finished(ahead.root)
