"""Every fault a drafter can have, by drafters that really have it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.draft.guard import GuardedDrafter
from edgespec.draft.lookup import LookupDrafter
from edgespec.events import Notice
from edgespec.spec.ports import Commit, IntArray, Needs, Plan, Rows, SequenceId
from edgespec.spec.tree import EMPTY, DraftMode, DraftTree, chain, check_tree, leaves, tree_of
from tests.draft.fake import NoRows, commit_of, play, prompt_of

N_VOCAB = 100
PLAN = Plan(max_nodes=4, max_leaves=2, deadline_seconds=0.5)
GOOD = chain([1, 2, 3], [0.9, 0.8, 0.7])
NO_NODES = prompt_of(())


@dataclass
class Clock:
    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


def nothing() -> None:
    pass


@dataclass
class Scripted:
    """A drafter that proposes what `make` returns and runs `on_...` when called; it notes what it was told."""

    make: Callable[[], DraftTree] = lambda: GOOD
    on_begin: Callable[[], None] = nothing
    on_anticipate: Callable[[], None] = nothing
    on_observe: Callable[[], None] = nothing
    on_end: Callable[[], None] = nothing
    name: str = "scripted"
    needs: Needs = Needs.TOKENS
    calls: list[str] = field(default_factory=list)
    seen_nodes: list[list[int]] = field(default_factory=list)
    n_asked: int = 0
    make_behind: Callable[[], int] = lambda: 0

    def begin(self, sequence: SequenceId, prompt: IntArray) -> None:
        self.calls.append(f"begin {sequence} {prompt.tolist()}")
        self.on_begin()

    def propose(self, sequence: SequenceId, plan: Plan) -> DraftTree:
        self.calls.append(f"propose {sequence} {plan.max_nodes}")
        self.n_asked += 1
        return self.make()

    def behind(self, sequence: SequenceId) -> int:
        return self.make_behind()

    def anticipate(self, sequence: SequenceId, tree: DraftTree) -> None:
        self.calls.append(f"anticipate {sequence} {len(tree)}")
        self.on_anticipate()

    def observe(self, sequence: SequenceId, commit: Commit, rows: Rows, nodes: IntArray) -> None:
        assert rows is ROWS
        self.calls.append(f"observe {sequence} {commit.tokens.tolist()}")
        self.seen_nodes.append(nodes.tolist())
        self.on_observe()

    def end(self, sequence: SequenceId) -> None:
        self.calls.append(f"end {sequence}")
        self.on_end()


ROWS = NoRows()


@dataclass
class Bench:
    """A guarded drafter with what it reports."""

    inner: Scripted
    clock: Clock = field(default_factory=Clock)
    notices: list[Notice] = field(default_factory=list)
    guard: GuardedDrafter = field(init=False)

    def __post_init__(self) -> None:
        self.guard = GuardedDrafter(self.inner, N_VOCAB, self.clock, self.notices.append)
        self.guard.begin(0, prompt_of([5]))

    def round(self, sequence: SequenceId = 0) -> DraftTree:
        tree = self.guard.propose(sequence, PLAN)
        self.guard.anticipate(sequence, tree)
        self.guard.observe(sequence, commit_of([9]), ROWS, np.full(len(tree), -1, np.int32))
        return tree

    def rounds_until_asked(self) -> int:
        """Rounds in which the inner drafter is not asked."""
        asked = self.inner.n_asked
        for n in range(5000):
            self.round()
            if self.inner.n_asked > asked:
                return n
        raise AssertionError("never asked again")

    @property
    def codes(self) -> list[str]:
        return [notice.code for notice in self.notices]


def fail() -> DraftTree:
    raise ZeroDivisionError("a\nbug")


def fail_to_listen() -> None:
    raise MemoryError


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def fail_without_words() -> DraftTree:
    raise UnprintableError


def test_a_sound_drafter_passes_through_untouched() -> None:
    bench = Bench(Scripted())
    assert bench.guard.name == "scripted"
    assert bench.guard.needs == Needs.TOKENS
    assert bench.round() is GOOD
    bench.guard.end(0)
    assert bench.inner.calls == ["begin 0 [5]", "propose 0 4", "anticipate 0 3", "observe 0 [9]", "end 0"]
    assert not bench.notices


def test_a_plan_without_nodes_asks_nobody() -> None:
    bench = Bench(Scripted(make=fail))
    assert len(bench.guard.propose(0, Plan(0))) == 0
    assert not bench.notices


@pytest.mark.parametrize("make", [fail, fail_without_words])
def test_an_exception_in_propose_is_an_empty_tree(make: Callable[[], DraftTree]) -> None:
    bench = Bench(Scripted(make=make))
    assert len(bench.round()) == 0
    assert bench.codes == ["draft-raised"]
    assert "scripted" in bench.notices[0].message
    assert "\n" not in bench.notices[0].message


def nodes(n: int) -> DraftTree:
    return chain([1] * n, [0.5] * n)


BAD_TREES = {
    "none": cast(DraftTree, None),
    "a list": cast(DraftTree, [1, 2, 3]),
    "id of the vocabulary's size": chain([1, N_VOCAB], [0.5, 0.5]),
    "negative id": chain([-1], [0.5]),
    "NaN survival": chain([1], [float("nan")]),
    "NaN survival below": chain([1, 2], [0.5, float("nan")]),
    "infinite survival": chain([1], [float("inf")]),
    "rising survival": chain([1, 2], [0.4, 0.5]),
    "parent after child": tree_of([1, 2], [1, -1], [0.5, 0.5]),
    "parent of itself": tree_of([1], [0], [0.5]),
    "parent out of range": tree_of([1], [-2], [0.5]),
    "too many nodes": nodes(5),
    "too many leaves": tree_of([1, 2, 3], [-1, -1, -1], [0.3, 0.3, 0.3]),
    "lengths differ": replace(nodes(2), parents=np.array([-1], np.int32)),
    "floats for ids": replace(nodes(1), tokens=cast(IntArray, np.array([1.0]))),
    "wide integers": replace(nodes(1), tokens=cast(IntArray, np.array([1], np.int64))),
    "two dimensions": replace(nodes(1), tokens=np.array([[1]], np.int32)),
    "no arrays": replace(nodes(1), tokens=cast(IntArray, None)),
    "lists": replace(nodes(1), tokens=cast(IntArray, [1]), parents=cast(IntArray, [-1])),
    "no mode": replace(nodes(1), mode=cast(DraftMode, "point")),
}


@pytest.mark.parametrize("tree", BAD_TREES.values(), ids=BAD_TREES.keys())
def test_a_tree_that_cannot_be_used_is_an_empty_tree(tree: DraftTree) -> None:
    bench = Bench(Scripted(make=lambda: tree))
    assert bench.round() is EMPTY
    assert bench.codes == ["draft-invalid"]
    assert bench.rounds_until_asked() == 8


@pytest.mark.parametrize("tree", [EMPTY, nodes(4), tree_of([1, 2, 3], [-1, -1, 0], [0.5, 0.5, 0.5])])
def test_the_plans_limits_themselves_are_allowed(tree: DraftTree) -> None:
    bench = Bench(Scripted(make=lambda: tree))
    assert bench.round() is tree
    assert not bench.notices


def test_the_nodes_of_a_refused_tree_are_told_as_cut() -> None:
    """A drafter that looks up its own nodes must find them, or refusing its tree would break it."""
    bench = Bench(Scripted(make=lambda: nodes(5)))
    bench.round()
    bench.round()
    assert bench.inner.seen_nodes == [[-1] * 5, []]


@pytest.mark.parametrize("sits_out", [False, True])
def test_the_nodes_of_a_pass_that_was_broken_off_are_told_as_cut(sits_out: bool) -> None:
    """The round is run again, but the drafter may not be asked again: it still believes in its proposal."""
    bench = Bench(Scripted(make=lambda: nodes(5) if sits_out else GOOD))
    bench.guard.propose(0, PLAN)
    assert not len(bench.guard.propose(0, PLAN if sits_out else Plan(0)))
    bench.guard.observe(0, commit_of([9]), ROWS, np.empty(0, np.int32))
    bench.inner.make = lambda: EMPTY
    bench.round()
    assert bench.inner.n_asked == (1 if sits_out else 2)
    assert bench.inner.seen_nodes == [[-1] * (5 if sits_out else len(GOOD)), []]


def test_a_late_tree_is_used_but_is_a_fault() -> None:
    clock = Clock()

    def slow() -> DraftTree:
        clock.seconds += 0.6
        return GOOD

    bench = Bench(Scripted(make=slow), clock)
    assert bench.round() is GOOD
    assert bench.codes == ["draft-late"]
    assert "600.0 ms of 500.0 ms" in bench.notices[0].message
    assert len(bench.round()) == 0


def test_in_time_is_no_fault() -> None:
    clock = Clock()

    def just_in_time() -> DraftTree:
        clock.seconds += 0.5
        return GOOD

    bench = Bench(Scripted(make=just_in_time), clock)
    assert bench.round() is GOOD
    assert not bench.notices


def test_sit_outs_double_up_to_a_cap_and_each_kind_is_reported_once() -> None:
    bench = Bench(Scripted(make=fail))
    bench.round()
    # The round that asks again fails again.
    assert [bench.rounds_until_asked() for _ in range(10)] == [8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024]
    assert bench.codes == ["draft-raised"]
    bench.inner.make = lambda: nodes(9)
    bench.rounds_until_asked()
    assert bench.codes == ["draft-raised", "draft-invalid"]


def test_good_proposals_earn_back_trust_slowly() -> None:
    bench = Bench(Scripted(make=fail))
    bench.round()
    assert [bench.rounds_until_asked() for _ in range(2)] == [8, 16]
    bench.inner.make = lambda: GOOD
    # It sits out 32, and the next fault would cost 64: 64 good rounds bring that to 32, 32 more to 16.
    assert bench.rounds_until_asked() == 32
    for _ in range(64 + 32 - 1):
        assert bench.round() is GOOD
    bench.inner.make = fail
    bench.round()
    assert bench.rounds_until_asked() == 16


def test_a_fault_starts_the_count_of_good_proposals_anew() -> None:
    bench = Bench(Scripted(make=fail))
    bench.round()
    bench.inner.make = lambda: GOOD
    assert bench.rounds_until_asked() == 8
    for _ in range(14):
        bench.round()
    bench.inner.make = fail
    bench.round()
    assert bench.rounds_until_asked() == 16
    bench.inner.make = lambda: GOOD
    assert bench.rounds_until_asked() == 32
    for _ in range(60):
        bench.round()
    bench.inner.make = fail
    bench.round()
    assert bench.rounds_until_asked() == 64


def test_an_empty_proposal_proves_nothing() -> None:
    bench = Bench(Scripted(make=fail))
    bench.round()
    bench.inner.make = lambda: EMPTY
    assert bench.rounds_until_asked() == 8
    for _ in range(100):
        bench.round()
    bench.inner.make = fail
    bench.round()
    assert bench.rounds_until_asked() == 16


def test_while_it_sits_out_it_still_follows_the_text() -> None:
    bench = Bench(Scripted(make=fail))
    bench.round()
    assert bench.inner.calls == ["begin 0 [5]", "propose 0 4", "observe 0 [9]"]
    bench.inner.calls.clear()
    bench.round()
    bench.guard.begin(1, prompt_of([6]))
    bench.guard.end(1)
    assert bench.inner.calls == ["observe 0 [9]", "begin 1 [6]", "end 1"]


def test_a_drafter_returns_from_a_sit_out_knowing_the_text() -> None:
    """The real drafter behind a guard that has seen a late proposal drafts right at once when it is back."""
    ticks = iter([0.0, 9.0])
    late = GuardedDrafter(LookupDrafter(), N_VOCAB, lambda: next(ticks, 9.0), lambda _: None)
    late.begin(0, prompt_of([1, 2, 3, 4, 1, 2, 3]))
    truth = [4, 1, 2, 3] * 20
    late.propose(0, PLAN)
    late.observe(0, commit_of(truth[:1]), ROWS, NO_NODES)
    assert play(late, 0, truth[1:], PLAN).n_passes == 8 + -(-(79 - 8) // 5)


@pytest.mark.parametrize("where", ["begin", "observe"])
def test_a_sequence_it_failed_to_follow_is_closed_until_it_begins_anew(where: str) -> None:
    bench = Bench(Scripted())
    bench.guard.begin(1, prompt_of([7]))
    if where == "begin":
        bench.inner.on_begin = fail_to_listen
        bench.guard.begin(0, prompt_of([5]))
    else:
        bench.inner.on_observe = fail_to_listen
        bench.round()
    bench.inner.on_begin = bench.inner.on_observe = nothing
    assert bench.inner.calls[-1] == "end 0"
    assert bench.codes == ["draft-raised"]
    bench.inner.calls.clear()
    for _ in range(20):
        assert len(bench.round()) == 0
    assert not bench.inner.calls, "a closed sequence is not its business"
    assert bench.round(1) is GOOD, "other sequences are"
    bench.guard.begin(0, prompt_of([5]))
    assert bench.round() is GOOD


@dataclass
class Quick(Scripted):
    """One that knows when it has nothing to propose."""

    answer: Callable[[], bool] = lambda: True

    def is_silent(self, sequence: SequenceId, least_claim: float = 0.0) -> bool:
        self.calls.append(f"silent {sequence}")
        return self.answer()

    def follow(self, sequence: SequenceId, tokens: Sequence[int], least_claim: float = 0.0) -> bool:
        self.calls.append(f"follow {sequence} {list(tokens)}")
        return self.answer()


def fail_to_answer() -> bool:
    raise LookupError("no such text")


def test_silence_is_passed_on_by_who_knows_it() -> None:
    bench = Bench(Quick())
    assert bench.guard.is_silent(0)
    assert bench.guard.follow(0, [3])
    assert bench.inner.calls[1:] == ["silent 0", "follow 0 [3]"]
    other = Bench(Scripted())
    assert not other.guard.is_silent(0)


def test_while_it_sits_out_it_is_asked_so_that_the_rounds_are_counted() -> None:
    bench = Bench(Quick(make=fail))
    bench.round()
    assert not bench.guard.is_silent(0)
    bench.inner.make = lambda: GOOD
    assert bench.rounds_until_asked() == 8
    assert bench.guard.is_silent(0)


def test_failing_to_say_whether_it_is_silent_is_a_fault() -> None:
    quick = Quick(answer=fail_to_answer)
    bench = Bench(quick)
    assert not bench.guard.is_silent(0)
    assert bench.codes == ["draft-raised"]
    quick.answer = lambda: True
    assert bench.rounds_until_asked() == 8


def test_one_that_fails_to_follow_is_closed_until_it_begins_anew() -> None:
    quick = Quick(answer=fail_to_answer)
    bench = Bench(quick)
    assert not bench.guard.follow(0, [3])
    assert bench.inner.calls[-1] == "end 0"
    quick.answer = lambda: True
    bench.inner.calls.clear()
    for _ in range(20):
        bench.round()
        assert not bench.guard.is_silent(0)
    assert not bench.inner.calls
    bench.guard.begin(0, prompt_of([5]))
    assert bench.guard.is_silent(0)


@pytest.mark.parametrize("answer", [None, 1, "yes"])
def test_only_a_plain_yes_is_silence(answer: object) -> None:
    quick = Quick()
    quick.answer = lambda: answer  # type: ignore[assignment, return-value]
    assert not Bench(quick).guard.is_silent(0)
    assert not Bench(quick).guard.follow(0, [3])


def test_a_closed_sequence_has_been_ended_already() -> None:
    bench = Bench(Scripted(on_observe=fail_to_listen))
    bench.round()
    bench.guard.end(0)
    bench.guard.end(0)
    assert bench.inner.calls.count("end 0") == 2, "once when it was closed, once for the unknown sequence"


def test_failing_to_prepare_is_a_fault_like_any_other() -> None:
    bench = Bench(Scripted(on_anticipate=fail_to_listen))
    assert bench.round() is GOOD
    assert bench.codes == ["draft-raised"]
    assert bench.inner.calls[-1] == "observe 0 [9]"
    assert bench.rounds_until_asked() == 8


def test_failing_to_end_is_no_matter() -> None:
    bench = Bench(Scripted(on_end=fail_to_listen))
    bench.guard.end(0)
    assert bench.codes == ["draft-raised"]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_passes(stop: type[BaseException]) -> None:
    def end_it() -> None:
        raise stop

    def end_it_with_a_tree() -> DraftTree:
        raise stop

    bench = Bench(Scripted(make=end_it_with_a_tree, on_observe=end_it))
    with pytest.raises(stop):
        bench.guard.propose(0, PLAN)
    with pytest.raises(stop):
        bench.guard.observe(0, commit_of([9]), ROWS, NO_NODES)
    assert not bench.notices


FAULTS: list[Callable[[], DraftTree]] = [
    fail,
    lambda: GOOD,
    lambda: EMPTY,
    *((lambda tree=tree: tree) for tree in BAD_TREES.values()),
]


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(FAULTS), st.integers(0, 15), st.integers(0, 1)), max_size=60))
def test_whatever_it_does_only_valid_trees_come_out(rounds: list[tuple[Callable[[], DraftTree], int, int]]) -> None:
    bench = Bench(Scripted())
    bench.guard.begin(1, prompt_of([7]))
    for make, failing, sequence in rounds:
        bench.inner.make = make
        bench.inner.on_begin = fail_to_listen if failing & 1 else nothing
        bench.inner.on_anticipate = fail_to_listen if failing & 2 else nothing
        bench.inner.on_observe = fail_to_listen if failing & 4 else nothing
        bench.inner.on_end = fail_to_listen if failing & 8 else nothing
        tree = bench.round(sequence)
        check_tree(tree, N_VOCAB)
        assert len(tree) <= PLAN.max_nodes
        assert len(leaves(tree)) <= PLAN.max_leaves
        if failing == 15:
            bench.guard.end(sequence)
            bench.guard.begin(sequence, prompt_of([8]))
    assert len(bench.codes) == len(set(bench.codes))


def test_what_it_still_has_to_read_is_passed_on_unless_it_sits_out() -> None:
    bench = Bench(Scripted(make_behind=lambda: 7))
    assert bench.guard.behind(0) == 7
    bench.inner.make = fail
    bench.round()
    assert bench.guard.behind(0) == 0
    while not bench.guard.propose(0, PLAN):
        assert len(bench.codes) == 1
        bench.inner.make = lambda: GOOD
    assert bench.guard.behind(0) == 7


@pytest.mark.parametrize(("answer", "code"), [(-1, "draft-invalid"), (1.5, "draft-invalid"), (None, "draft-raised")])
def test_one_that_cannot_say_how_far_it_is_behind_pauses(answer: float | None, code: str) -> None:
    def say() -> int:
        if answer is None:
            raise OSError("no idea")
        return answer  # type: ignore[return-value]

    bench = Bench(Scripted(make_behind=say))
    assert bench.guard.behind(0) == 0
    assert bench.codes == [code]
    assert len(bench.guard.propose(0, PLAN)) == 0
    assert bench.inner.n_asked == 0
