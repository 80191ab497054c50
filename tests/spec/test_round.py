"""Speculative decoding says what plain decoding says: any trees, laws, limits, policies, batches; zero tolerance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgespec.backend.toy import ToyModel, ToyTarget
from edgespec.draft.given import GivenDrafter
from edgespec.draft.guard import GuardedDrafter
from edgespec.draft.lookup import LookupDrafter, _bucket
from edgespec.errors import EngineFailure
from edgespec.events import Finish, RoundReport
from edgespec.spec.cost import CostTable
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.ledger import Entry, replay
from edgespec.spec.measured import MeasuredPolicy
from edgespec.spec.merging import merge
from edgespec.spec.policy import FixedPolicy, Offer, Policy, Proposed, Selection, cut, node_room, through
from edgespec.spec.ports import Capabilities, Commit, Drafter, IntArray, Plan, Rows, VerifyRequest
from edgespec.spec.round import Drafting, Loop
from edgespec.spec.sequence import SequenceState
from edgespec.spec.tree import EMPTY, DraftMode, DraftTree, best_first, chain, prune, tree_of
from edgespec.spec.verify import PathVerifier
from tests.spec import rows
from tests.spec.plain_decoding import Asked, Plain, plain_exact, plain_fast
from tests.spec.random_trees import path
from tests.spec.wild_drafters import FollowingWitness, WildDrafter, Witness

N_VOCAB = 7
WIDTH_CLASSES = ((2, 4, 8, 16), (1, 2, 3, 4, 5, 6), (3, 5, 11), (4,), (1,), (2, 16))
FAST = settings(max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
SHIFTS = settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
EXACT = settings(max_examples=800, suppress_health_check=[HealthCheck.too_slow])


class WatchedTarget(ToyTarget):
    """Remembers the widths of its verify passes."""

    def __init__(self, model: ToyModel, limits: Capabilities, rounding: bool = False) -> None:
        super().__init__(model, limits, rounding=rounding)
        self.widths: list[int] = []

    def verify(self, requests: Sequence[VerifyRequest], width: int) -> list[Rows]:
        self.widths.append(width)
        return super().verify(requests, width)


class WildPolicy:
    """Any plan within the limits, then any prefix-closed part of the tree, in any order of its branches."""

    def __init__(self, seed: int, n_nodes: int) -> None:
        self._random = Random(seed)
        self._n_nodes = n_nodes
        self.recorded: list[RoundReport] = []

    def plan(
        self,
        state: SequenceState,
        drafter: str,
        capabilities: Capabilities,
        n_sequences: int,
        offered: Sequence[Proposed] = (),
        n_behind: int = 0,
    ) -> Plan:
        room = min(self._n_nodes, node_room(state, capabilities, n_sequences))
        return Plan(self._random.randint(0, room), self._random.randint(1, capabilities.max_leaves))

    def select(self, offers: Sequence[Offer], capabilities: Capabilities) -> list[Selection]:
        return [self._select(offer) for offer in offers]

    def _select(self, offer: Offer) -> Selection:
        tree, nodes = merge([one.tree for one in offer.proposed])
        kept, kept_map = prune(tree, np.array([self._random.random() < 0.8 for _ in range(len(tree))], np.bool_))
        max_nodes = max((one.plan.max_nodes for one in offer.proposed), default=0)
        max_leaves = max((one.plan.max_leaves for one in offer.proposed), default=1)
        return cut(kept, [through(own, kept_map) for own in nodes], max_nodes, max_leaves)

    def least_claim(self, n_sequences: int) -> float:
        return 0.0

    def lets_rest(self, sequence: int) -> bool:
        return self._random.random() < 0.7

    def may_ask(self, n_sequences: int) -> bool:
        return self._random.random() < 0.8

    def rest(self, states: Sequence[SequenceState], report: RoundReport, n_emitted: int, draft_seconds: float) -> None:
        self.recorded.append(report)

    def record(self, offers: Sequence[Offer], reports: Sequence[RoundReport], draft_seconds: float) -> None:
        self.recorded += reports


# -- what is asked, and who guesses -------------------------------------------------------------------------------


@st.composite
def models(draw: st.DrawFn) -> ToyModel:
    return ToyModel(
        n_vocab=N_VOCAB,
        order=draw(st.integers(1, 3)),
        scale=draw(st.sampled_from([0.5, 3.0])),
        seed=draw(st.integers(0, 10**6)),
        n_levels=draw(st.sampled_from([0, 0, 2, 4])),
        masked=draw(st.sampled_from([0.0, 0.0, 0.4, 0.9])),
    )


def tokens(min_size: int, max_size: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(0, N_VOCAB - 1), min_size=min_size, max_size=max_size).map(tuple)


@cache
def requests(widths: tuple[int, ...] = ()) -> st.SearchStrategy[Asked]:
    return st.builds(
        Asked,
        tokens(1, 10),
        rows.settings(N_VOCAB),
        st.sampled_from([1, 2, 3, 5, 9, 20]),
        st.sampled_from([frozenset(), frozenset({2}), frozenset({0, 4})]),
        st.just(widths),
    )


BATCHES = st.lists(requests(), min_size=1, max_size=3)


@st.composite
def limits(draw: st.DrawFn, n_text: int, widths: tuple[int, ...] = ()) -> Capabilities:
    """Often with a context that the longest text just fills, and passes that hold little beside the batch."""
    return Capabilities(
        n_ctx=n_text + draw(st.sampled_from([0, 0, 1, 5, 100])),
        n_vocab=N_VOCAB,
        max_rows=max(3, *widths, draw(st.sampled_from([3, 4, 7, 16, 32]))),
        max_chunk=draw(st.integers(1, 12)),
        max_leaves=draw(st.integers(1, 5)),
        can_rollback=True,
        width_classes=(widths,) if widths else (),
    )


KINDS = st.lists(st.sampled_from(["wild", "lookup", "given", "silent"]), max_size=2)


@st.composite
def drafters(draw: st.DrawFn, plain: Plain) -> tuple[Witness, ...]:
    """None, one, or two to be merged: wild ones from hopeless to perfect, lookup, given, and one without a word."""
    kinds = draw(KINDS)
    chosen: list[Drafter] = []
    for place, kind in enumerate(kinds):
        if kind == "wild":
            skill = draw(st.sampled_from([0.0, 0.5, 0.8, 1.0]))
            mode = draw(st.sampled_from(list(DraftMode))) if len(kinds) == 1 else DraftMode.POINT
            chosen.append(WildDrafter(f"wild{place}", plain.output, N_VOCAB, skill, draw(st.integers(0, 10**6)), mode))
        elif kind == "lookup":
            chosen.append(LookupDrafter(min_match=draw(st.integers(1, 3))))
        elif kind == "given":
            chosen.append(GivenDrafter(draw(st.sampled_from([plain.output, plain.output[::2], (1, 2, 3)]))))
        else:
            chosen.append(Silent())
    return tuple(FollowingWitness(one) if isinstance(one, LookupDrafter) else Witness(one) for one in chosen)


class Silent(WildDrafter):
    """Never has a guess."""

    def __init__(self) -> None:
        super().__init__("silent", (), N_VOCAB, 0.0, 0)

    def propose(self, sequence: int, plan: Plan) -> DraftTree:
        return tree_of((), (), ())


def policies() -> st.SearchStrategy[Policy]:
    fixed = st.builds(FixedPolicy, max_nodes=st.sampled_from([0, 1, 4, 12]), max_leaves=st.integers(1, 4))
    measured = st.builds(MeasuredPolicy, st.sampled_from(TABLES), max_leaves=st.integers(1, 4))
    return st.one_of(fixed, st.builds(WildPolicy, st.integers(0, 10**6), st.just(8)), measured)


# Where drafting pays at any length, only in a full pass, or at odd widths: the loop's clock ticks once per question.
TABLES = (
    CostTable((0,), tuple(range(1, 17)), (tuple(1.0 + 0.01 * n for n in range(16)),)),
    CostTable((0,), (1, 2, 4, 8, 16), ((1.0, 1.9, 2.0, 2.1, 2.2),), is_partial=True),
    CostTable((0, 10), (1, 3, 5, 11), ((1.0, 1.1, 1.1, 1.2), (2.0, 2.1, 2.1, 2.2))),
)


# -- the loop at work ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Running:
    asked: Asked
    plain: Plain
    state: SequenceState
    witnesses: tuple[Witness, ...]


def begin(target: ToyTarget, sequence: int, asked: Asked, plain: Plain, witnesses: tuple[Witness, ...]) -> Running:
    read, step = asked.prompt[:-1], target.capabilities.max_chunk
    for start in range(0, len(read), step):
        target.extend(sequence, np.array(read[start : start + step], np.int32))
    for witness in witnesses:
        witness.begin(sequence, np.array(asked.prompt, np.int32))
    law = Law(asked.sampling)
    state = SequenceState.start(sequence, list(asked.prompt), law, asked.max_tokens, asked.end_tokens, asked.widths)
    return Running(asked, plain, state, witnesses)


def play(target: WatchedTarget, policy: Policy, running: list[Running]) -> None:
    """Rounds until all are over, each checked."""
    loop = Loop(target, policy, PathVerifier(), clock=iter(range(10**9)).__next__)
    going = running
    while going:
        lengths = [len(one.state.tokens) for one in going]
        n_pending = sum(len(one.state.pending) for one in going)
        reports = loop.run([Drafting.of(one.state, one.witnesses) for one in going])
        n_rows = n_pending + sum(report.n_drafted for report in reports)
        for one, report, n_before in zip(going, reports, lengths, strict=True):
            assert report.n_rows == target.widths[-1] == n_rows + report.n_padded
            check_round(target, one, report, n_before)
        going = [one for one in going if one.state.finish is None and one.state.failure is None]


def check_round(target: ToyTarget, one: Running, report: RoundReport, n_before: int) -> None:
    state = one.state
    if state.failure is not None:
        assert len(report.tokens) == len(report.sources) == 0
        assert len(state.tokens) == n_before
        return
    assert len(report.tokens) >= 1
    assert tuple(state.tokens[n_before:]) == report.tokens
    assert state.tokens[len(state.tokens) - len(state.pending) :] == state.pending.tolist()
    held = [cell.token for cell in target.cells(state.id)]
    assert held == state.tokens[: len(state.tokens) - len(state.pending)]
    check_sources(one, report)


def check_sources(one: Running, report: RoundReport) -> None:
    """An emitted token is its drafter's, the first who guessed it, if and only if it was in the verified tree."""
    tree = tree_of(report.tree_tokens, report.tree_parents, [1.0] * len(report.tree_tokens))
    verified = {path(tree, node) for node in range(len(tree))}
    assert len(tree) == report.n_drafted
    for i, source in enumerate(report.sources):
        said = report.tokens[: i + 1]
        owner = next(w.name for w in one.witnesses if w.guessed(said)) if said in verified else ""
        assert source == owner
    assert report.n_accepted == sum(1 for source in report.sources if source)
    assert len(report.path) + 1 == len(report.tokens)


def check_end(target: ToyTarget, one: Running) -> None:
    state, counts = one.state, one.state.counts
    output = tuple(state.tokens[len(one.asked.prompt) :])
    assert state.finish == one.plain.finish
    if state.failure is None:
        assert output == one.plain.output
    else:  # what was accepted in the round that failed is lost with it
        assert output == one.plain.output[: len(output)]
    assert counts.passes <= len(one.plain.output) + (state.failure is not None)
    assert counts.n_accepted == sum(counts.accepted_by.values()) <= counts.n_drafted
    for witness in one.witnesses:
        witness.end(state.id)
    target.release(state.id)


# -- speculative == plain -----------------------------------------------------------------------------------------


@FAST
@given(st.data(), models(), policies())
def test_a_batch_of_fast_requests_says_what_each_would_say_plainly(
    data: st.DataObject, model: ToyModel, policy: Policy
) -> None:
    batch = data.draw(BATCHES)
    longest = max(len(asked.prompt) + asked.max_tokens for asked in batch)
    target = WatchedTarget(model, data.draw(limits(longest)))
    running = []
    for sequence, asked in enumerate(batch):
        plain = plain_fast(model, asked)
        running.append(begin(target, sequence, asked, plain, data.draw(drafters(plain))))
    play(target, policy, running)
    for one in running:
        check_end(target, one)


@EXACT
@given(st.data(), models(), policies(), st.sampled_from(WIDTH_CLASSES))
def test_an_exact_request_is_bitwise_plain_and_stays_inside_its_class(
    data: st.DataObject, model: ToyModel, policy: Policy, widths: tuple[int, ...]
) -> None:
    asked = data.draw(requests(widths))
    capabilities = data.draw(limits(len(asked.prompt) + asked.max_tokens, widths))
    plain = plain_exact(model, capabilities, asked)
    target = WatchedTarget(model, capabilities, rounding=True)
    one = begin(target, 0, asked, plain, data.draw(drafters(plain)))
    play(target, policy, [one])
    assert set(target.widths) <= set(widths)
    check_end(target, one)


def test_an_exact_request_verifies_one_branch_the_likelier_one() -> None:
    widths = (8,)
    fork = tree_of([0, TRUTH[0], 5, TRUTH[1]], [-1, -1, 0, 1], [0.4, 0.9, 0.3, 0.8])
    report, _ = first_round(replace(ASKED, widths=widths), Fixed(fork), policy=Deep(max_nodes=8, max_leaves=4))
    assert (report.tree_tokens, report.tree_parents) == (TRUTH[:2], (-1, 0))
    assert (report.n_rows, report.n_padded) == (8, 5)
    assert report.tokens == TRUTH[:3]


def test_the_logits_of_the_exact_test_depend_on_the_width() -> None:
    # Otherwise the test above could not fail.
    differing = 0
    for seed in range(60):
        model = ToyModel(n_vocab=N_VOCAB, seed=seed, n_levels=2)
        asked = Asked((1, 2), SamplingSettings(), 20, widths=(4,))
        capabilities = Capabilities(100, N_VOCAB, 16, 8, 4, True, ((4,),))
        other = replace(asked, widths=(8,))
        differing += plain_exact(model, capabilities, asked) != plain_exact(model, capabilities, other)
    assert differing > 10


# -- single rules -------------------------------------------------------------------------------------------------

MODEL = ToyModel(n_vocab=N_VOCAB, seed=3)
ROOMY = Capabilities(n_ctx=200, n_vocab=N_VOCAB, max_rows=16, max_chunk=16, max_leaves=4, can_rollback=True)
ASKED = Asked((1, 2, 3), SamplingSettings(), 12)
TRUTH = plain_fast(MODEL, ASKED).output


class Fixed(WildDrafter):
    """Proposes the same tree every time, as far as the plan allows."""

    def __init__(self, tree: DraftTree, name: str = "fixed") -> None:
        super().__init__(name, (), N_VOCAB, 0.0, 0)
        self._tree = tree

    def propose(self, sequence: int, plan: Plan) -> DraftTree:
        return best_first(self._tree, plan.max_nodes, plan.max_leaves)[0]


def guess(*tokens: int, name: str = "fixed") -> Fixed:
    return Fixed(chain(tokens, [0.9] * len(tokens)), name)


def first_round(
    asked: Asked, *drafters: Drafter, limits: Capabilities = ROOMY, policy: Policy | None = None
) -> tuple[RoundReport, SequenceState]:
    target = WatchedTarget(MODEL, limits)
    one = begin(target, 0, asked, Plain((), None), ())
    loop = Loop(target, policy or FixedPolicy(max_nodes=8, max_leaves=4), PathVerifier(), clock=lambda: 0.0)
    return loop.run([Drafting.of(one.state, drafters)])[0], one.state


def test_a_guessed_token_that_ends_the_answer_was_guessed() -> None:
    report, state = first_round(replace(ASKED, end_tokens=frozenset({TRUTH[2]})), guess(*TRUTH[:5]))
    n = TRUTH.index(TRUTH[2]) + 1
    assert report.tokens == TRUTH[:n]
    assert report.sources == ("fixed",) * n
    assert (report.n_accepted, len(report.path)) == (n, n - 1)
    assert (state.finish, state.counts.accepted_by) == (Finish.STOP, {"fixed": n})


class Deep(FixedPolicy):
    """Drafts past every limit that is not the target's."""

    def plan(
        self,
        state: SequenceState,
        drafter: str,
        capabilities: Capabilities,
        n_sequences: int,
        offered: Sequence[Proposed] = (),
        n_behind: int = 0,
    ) -> Plan:
        return Plan(self.max_nodes, self.max_leaves)


def test_a_guessed_token_at_the_limit_was_guessed() -> None:
    report, state = first_round(replace(ASKED, max_tokens=3), guess(*TRUTH[:5]), policy=Deep(max_nodes=8))
    assert (report.tokens, report.sources) == (TRUTH[:3], ("fixed",) * 3)
    assert state.finish is Finish.LENGTH


def test_the_bonus_after_a_wrong_guess_is_the_targets_own() -> None:
    wrong = (TRUTH[1] + 1) % N_VOCAB
    report, _ = first_round(ASKED, guess(TRUTH[0], wrong))
    assert (report.tokens, report.sources) == (TRUTH[:2], ("fixed", ""))


def test_a_token_that_two_drafters_guess_is_the_first_ones() -> None:
    report, _ = first_round(ASKED, guess(TRUTH[0], name="a"), guess(*TRUTH[:2], name="b"))
    assert report.sources == ("a", "b", "")


def test_nothing_is_drafted_that_could_only_be_accepted_past_the_limit() -> None:
    for max_tokens in (1, 2, 4):
        report, _ = first_round(replace(ASKED, max_tokens=max_tokens), guess(*TRUTH), policy=FixedPolicy(max_nodes=8))
        assert report.n_drafted == max_tokens - 1
        assert report.tokens == TRUTH[:max_tokens]


def test_a_target_that_cannot_roll_back_decodes_plainly() -> None:
    limits = replace(ROOMY, can_rollback=False, max_rows=1)
    report, _ = first_round(ASKED, guess(*TRUTH), limits=limits)
    assert (report.n_drafted, report.n_rows, report.tokens) == (0, 1, TRUTH[:1])


def test_a_law_without_a_token_to_choose_fails_its_own_sequence_only() -> None:
    target = WatchedTarget(MODEL, ROOMY)
    banned = replace(ASKED, sampling=SamplingSettings(banned=tuple(range(N_VOCAB))))
    good, bad = (begin(target, i, asked, Plain((), None), ()) for i, asked in enumerate((ASKED, banned)))
    loop = Loop(target, FixedPolicy(), PathVerifier(), clock=lambda: 0.0)
    reports = loop.run([Drafting.of(bad.state, ()), Drafting.of(good.state, ())])
    assert [report.tokens for report in reports] == [(), TRUTH[:1]]
    assert isinstance(bad.state.failure, EngineFailure)
    target.release(bad.state.id)
    assert loop.run([Drafting.of(good.state, ())])[0].tokens == TRUTH[1:2]
    with pytest.raises(EngineFailure, match="no token can be chosen"):
        loop.run([Drafting.of(bad.state, ())])


class Restless(FixedPolicy):
    """Asks in every round."""

    def lets_rest(self, sequence: int) -> bool:
        return False


@pytest.mark.parametrize(
    ("policy", "ticks"),
    [
        (Restless(), [0.0, 2.0, 6.0, 7.0, 8.0, 30.0]),  # round, verify, verify, observe, observe, round
        (FixedPolicy(), [0.0, 2.0, 6.0, 30.0]),  # round, verify, verify, round: nobody follows
    ],
)
def test_seconds_are_the_clocks(policy: Policy, ticks: list[float]) -> None:
    target = WatchedTarget(MODEL, ROOMY)
    one = begin(target, 0, ASKED, Plain((), None), ())
    report = Loop(target, policy, PathVerifier(), iter(ticks).__next__).run([Drafting.of(one.state, ())])[0]
    assert (report.propose_seconds, report.verify_seconds, report.seconds) == (2.0, 4.0, 30.0)


class Following(Fixed):
    """Silent but for its first round, and told of commits in every way there is."""

    def __init__(self, tree: DraftTree, silent_for: int) -> None:
        super().__init__(tree, "following")
        self.n_asked = 0
        self.followed: list[int] = []
        self._silent_for = silent_for

    def propose(self, sequence: int, plan: Plan) -> DraftTree:
        self.n_asked += 1
        return super().propose(sequence, plan) if self.n_asked == 1 else EMPTY

    def observe(self, sequence: int, commit: Commit, rows: Rows, nodes: IntArray) -> None:
        self.followed += commit.tokens.tolist()

    def is_silent(self, sequence: int, least_claim: float = 0.0) -> bool:
        return self._silent_for > 0

    def follow(self, sequence: int, tokens: Sequence[int], least_claim: float = 0.0) -> bool:
        self.followed += tokens
        self._silent_for -= 1
        return self._silent_for > 0


@pytest.mark.parametrize(("policy", "n_asked"), [(FixedPolicy(), 3), (Restless(), 6)])
def test_a_drafter_that_says_it_is_silent_is_not_asked_and_hears_every_token(policy: Policy, n_asked: int) -> None:
    target = WatchedTarget(MODEL, ROOMY)
    one = begin(target, 0, replace(ASKED, max_tokens=7), Plain((), None), ())
    drafter = Following(chain(TRUTH[:1], [0.9]), silent_for=3)
    loop = Loop(target, policy, PathVerifier(), clock=lambda: 0.0)
    drafting = Drafting.of(one.state, (drafter,))
    reports = []
    while one.state.finish is None:
        reports += loop.run([drafting])
    assert tuple(token for report in reports for token in report.tokens) == tuple(drafter.followed) == TRUTH[:7]
    assert (len(reports), drafter.n_asked) == (6, n_asked)
    assert one.state.counts.passes == 6


@dataclass(frozen=True)
class Resting(FixedPolicy):
    """Writes down what it is told of rounds that rest."""

    told: list[tuple[RoundReport, int, float]] = field(default_factory=list)

    def rest(self, states: Sequence[SequenceState], report: RoundReport, n_emitted: int, draft_seconds: float) -> None:
        self.told.append((report, n_emitted, draft_seconds))


@pytest.mark.parametrize("silent_for", [None, 0, 2, 99])
@pytest.mark.parametrize("widths", [(), (2, 4)])
def test_a_sequence_alone_rests_as_in_a_batch_of_one(silent_for: int | None, widths: tuple[int, ...]) -> None:
    def played(rest: Callable[[Loop, Drafting], RoundReport]) -> tuple[object, ...]:
        target, policy = WatchedTarget(MODEL, ROOMY), Resting()
        one = begin(target, 0, replace(ASKED, max_tokens=6), Plain((), None), ())
        one.state.width_class = widths
        drafter = None if silent_for is None else Following(EMPTY, silent_for)
        drafting = Drafting.of(one.state, () if drafter is None else (drafter,))
        loop = Loop(target, policy, PathVerifier(), clock=lambda: 0.0)
        reports = []
        while one.state.finish is None:
            reports.append(rest(loop, drafting))
        heard = drafter and (tuple(drafter.followed), one.state.silent)
        return reports, policy.told, one.state.tokens, one.state.counts, heard

    assert played(Loop._rest_alone) == played(lambda loop, one: loop._rest([one])[0])


def test_in_a_batch_only_those_are_asked_who_have_something_to_say() -> None:
    target = WatchedTarget(MODEL, ROOMY)
    drafters = [Following(EMPTY, silent_for=9), Following(EMPTY, silent_for=0)]
    batch = [
        Drafting.of(begin(target, i, ASKED, Plain((), None), ()).state, (drafter,))
        for i, drafter in enumerate(drafters)
    ]
    loop = Loop(target, FixedPolicy(), PathVerifier(), clock=lambda: 0.0)
    for _ in range(3):
        loop.run(batch)
    assert [drafter.n_asked for drafter in drafters] == [1, 3]
    assert [drafter.followed for drafter in drafters] == [list(TRUTH[:3])] * 2


class Interrupted(Exception):
    pass


class ShakyTarget(ToyTarget):
    """Breaks off some of its passes: in each of `calls`, that verify call is."""

    def __init__(self, model: ToyModel, calls: frozenset[int]) -> None:
        super().__init__(model)
        self._calls = calls
        self._n_calls = 0

    def verify(self, requests: Sequence[VerifyRequest], width: int) -> list[Rows]:
        self._n_calls += 1
        if self._n_calls in self._calls:
            raise Interrupted
        return super().verify(requests, width)


@dataclass(slots=True)
class Turn:
    """An answer, its drafter if it has one, and after how many tokens it is broken off and asked for again."""

    asked: Asked
    drafter: LookupDrafter | None
    stops_after: int
    drafting: Drafting | None = None


Told = tuple[int, tuple[int, ...], tuple[str, ...], int, int, tuple[int, ...]]


@dataclass(slots=True)
class Shift:
    """Answers that come, go, are broken off and begin again while passes are, all by one look-up for each."""

    target: ShakyTarget
    policy: Policy
    turns: list[Turn]
    told: list[Told] = field(default_factory=list)
    n_rounds: int = 0
    seconds: float = 0.0

    def play(self, order: Random) -> None:
        loop = Loop(self.target, self.policy, PathVerifier(), clock=iter(range(10**9)).__next__)
        for number in range(len(self.turns)):
            self.begin(number)
        going = list(range(len(self.turns)))
        while going:
            chosen = [number for number in going if order.random() < 0.8] or going
            self.round(loop, chosen)
            going = [number for number in going if self.goes_on(number)]

    def begin(self, number: int) -> None:
        turn = self.turns[number]
        prompt = np.array(turn.asked.prompt, np.int32)
        if len(prompt) > 1:
            self.target.extend(number, prompt[:-1])
        drafters: tuple[Drafter, ...] = ()
        if turn.drafter is not None:
            drafters = (GuardedDrafter(turn.drafter, N_VOCAB, lambda: 0.0, lambda _: None),)
            drafters[0].begin(number, prompt)
        state = SequenceState.start(
            number, list(turn.asked.prompt), Law(turn.asked.sampling), turn.asked.max_tokens, turn.asked.end_tokens
        )
        turn.drafting = Drafting.of(state, drafters)

    def round(self, loop: Loop, chosen: list[int]) -> None:
        batch = [one for one in (self.turns[number].drafting for number in chosen) if one is not None]
        before = [(list(one.state.tokens), one.state.silent) for one in batch]
        try:
            reports = loop.run(batch)
        except Interrupted:
            assert before == [(one.state.tokens, one.state.silent) for one in batch]
            return
        self.n_rounds += 1
        self.seconds += reports[0].seconds
        for number, one, report in zip(chosen, batch, reports, strict=True):
            self.told.append((number, report.tokens, report.sources, report.n_rows, report.n_drafted, report.path))
            drafter = self.turns[number].drafter
            if drafter is not None and one.state.failure is None:
                nothing = drafter.propose(number, Plan(9)) is EMPTY
                assert one.state.silent or not nothing, "where it has nothing to say it is silent"
                claim = drafter._rates.values[_bucket(drafter.matched(number))]
                is_poor = claim < self.policy.least_claim(len(batch))
                assert nothing or is_poor or not one.state.silent, "and else only where its guess is a poor one"

    def goes_on(self, number: int) -> bool:
        turn = self.turns[number]
        assert turn.drafting is not None
        state = turn.drafting.state
        if state.finish is None and state.failure is None and state.n_output < turn.stops_after:
            return True
        plain = plain_fast(self.target.model, turn.asked)
        assert tuple(state.tokens[state.n_prompt :]) == plain.output[: state.n_output]
        self.policy.end(number)
        if state.finish is not None or state.failure is not None or turn.stops_after > 99:
            return False
        said = state.tokens[: state.n_prompt + turn.stops_after]  # as behind a stop string the rest is dropped
        self.target.rewind(number, 0)
        turn.asked = replace(turn.asked, prompt=(*said, 1, 0))
        turn.stops_after = 100
        self.begin(number)
        if turn.drafter is not None:
            assert turn.drafter.indexed(number) == turn.asked.prompt
        return True


@st.composite
def turns(draw: st.DrawFn) -> list[tuple[Asked, int | None, int]]:
    ends = st.sampled_from([frozenset(), frozenset(), frozenset({2})])
    asked = st.builds(Asked, tokens(1, 10), rows.settings(N_VOCAB), st.sampled_from([3, 12, 40]), ends)
    return draw(
        st.lists(
            st.tuples(asked, st.sampled_from([None, 1, 2, 3]), st.sampled_from([1, 4, 9, 100])), min_size=1, max_size=3
        )
    )


def shift(model: ToyModel, policy: Policy, drawn: list[tuple[Asked, int | None, int]], seed: int) -> Shift:
    order = Random(seed)
    broken = frozenset(call for call in range(1, 60) if order.random() < 0.2)
    chosen = [Turn(asked, LookupDrafter(n) if n else None, stops_after) for asked, n, stops_after in drawn]
    found = Shift(ShakyTarget(model, broken), policy, chosen)
    found.play(order)
    return found


@SHIFTS
@given(models(), turns(), st.integers(0, 10**6), st.sampled_from([0, 1, 4, 12]))
def test_a_round_that_rests_is_one_in_which_all_were_asked(
    model: ToyModel, drawn: list[tuple[Asked, int | None, int]], seed: int, n_nodes: int
) -> None:
    """Also where passes break off, batches change, and texts are dropped behind a stop and go on otherwise."""
    rested = shift(model, FixedPolicy(n_nodes), drawn, seed)
    asked = shift(model, Restless(n_nodes), drawn, seed)
    assert rested.told == asked.told
    for ours, theirs in zip(rested.turns, asked.turns, strict=True):
        if ours.drafter is not None and theirs.drafter is not None:
            assert ours.drafter._rates.values == theirs.drafter._rates.values


@SHIFTS
@given(models(), turns(), st.integers(0, 10**6), st.sampled_from(TABLES))
def test_the_books_miss_no_round_that_rested(
    model: ToyModel, drawn: list[tuple[Asked, int | None, int]], seed: int, table: CostTable
) -> None:
    journal: list[Entry] = []
    policy = MeasuredPolicy(table, journal=journal.append)
    played = shift(model, policy, drawn, seed)
    assert sum(entry.n_rounds for entry in journal) == played.n_rounds
    assert sum(entry.n_emitted for entry in journal) == sum(len(told[1]) for told in played.told)
    assert sum(entry.seconds for entry in journal) == pytest.approx(played.seconds)
    assert replay(journal).n_refused == 0
    assert all(map(policy.lets_rest, range(len(drawn)))), "no answer leaves a guess behind that waits for its text"


def test_several_drafters_are_asked_in_every_round() -> None:
    both = Following(EMPTY, 9), Following(EMPTY, 9)
    _, state = first_round(ASKED, *both)
    assert Drafting.of(state, both).follower is None
    assert not state.silent


class Unread(WildDrafter):
    """Silent, and so many tokens behind."""

    def __init__(self, n_behind: int) -> None:
        super().__init__("unread", (), N_VOCAB, 0.0, 0)
        self._n_behind = n_behind

    def behind(self, sequence: int) -> int:
        return self._n_behind


class Asking(FixedPolicy):
    """Asks only drafters that have nothing to read, and notes what it was told."""

    def plan(
        self,
        state: SequenceState,
        drafter: str,
        capabilities: Capabilities,
        n_sequences: int,
        offered: Sequence[Proposed] = (),
        n_behind: int = 0,
    ) -> Plan:
        return Plan(0 if n_behind else 4, deadline_seconds=float(n_behind))

    def record(self, offers: Sequence[Offer], reports: Sequence[RoundReport], draft_seconds: float) -> None:
        told = [(one.n_behind, one.plan.max_nodes, one.plan.deadline_seconds) for one in offers[0].proposed]
        assert told == [(0, 4, 0.0), (9, 0, 9.0)]


def test_the_policy_hears_how_much_each_drafter_must_read_first() -> None:
    report, _ = first_round(ASKED, guess(*TRUTH[:2]), Unread(9), policy=Asking())
    assert report.n_accepted == 2
