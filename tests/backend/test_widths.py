"""Width classes are found as they are, a slow model is not probed for long, and the best class is the cheapest."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from edgespec.backend.llama.target import LlamaTarget
from edgespec.backend.settings import LlamaSettings
from edgespec.backend.toy import ToyModel, ToyTarget
from edgespec.backend.widths import (
    BUDGET_SECONDS,
    LIMIT_FACTOR,
    N_TEXT,
    PROBE_SEQUENCE,
    SCOPES,
    THREAD_SCOPE,
    Classes,
    Scope,
    Speed,
    agreeing_threads,
    best_class,
    compare_threads,
    find_classes,
    probe_classes,
)
from edgespec.spec.ports import Capabilities, Commit, FloatArray, IntArray, Rows, VerifyRequest
from tests.backend.conftest import SETTINGS, OpenTarget, Toys
from tests.backend.llama.driving import read, same, step, text_of
from tools.make_toy_model import Kind

MODEL = ToyModel(n_vocab=16, order=2)
LIMITS = Capabilities(n_ctx=4096, n_vocab=16, max_rows=32, max_chunk=256, max_leaves=8, can_rollback=True)
TEXT = np.array(text_of(1, N_TEXT), np.int32) % 16
ALL = tuple(range(1, 17))


@dataclass(slots=True)
class TimedTarget:
    """A toy whose passes take so many seconds on a clock of their own: per token read, per pass, and per row of one.

    Rows differ from class to class of widths; a width in no class is a class of its own.
    """

    classes: Classes = ()
    limits: Capabilities = LIMITS
    read_seconds: float = 0.0
    pass_seconds: float = 0.0
    row_seconds: float = 0.0
    now: float = 0.0
    widths: set[int] = field(default_factory=set)
    longest: int = 0

    def __post_init__(self) -> None:
        self.inner = ToyTarget(MODEL, replace(self.limits, width_classes=self.classes), rounding=True)

    inner: ToyTarget = field(init=False)

    def clock(self) -> float:
        return self.now

    @property
    def capabilities(self) -> Capabilities:
        return self.limits

    def extend(self, sequence: int, tokens: IntArray) -> None:
        self.now += self.read_seconds * len(tokens)
        self.inner.extend(sequence, tokens)

    def verify(self, requests: Sequence[VerifyRequest], width: int) -> list[Rows]:
        self.now += self.pass_seconds + self.row_seconds * width
        self.widths.add(width)
        rows = self.inner.verify(requests, width)
        self.longest = max(self.longest, self.inner.length(PROBE_SEQUENCE))
        return rows

    def commit(self, sequence: int, commit: Commit) -> IntArray:
        return self.inner.commit(sequence, commit)

    def rewind(self, sequence: int, length: int) -> int:
        return self.inner.rewind(sequence, length)

    def length(self, sequence: int) -> int:
        return self.inner.length(sequence)

    def release(self, sequence: int) -> None:
        self.inner.release(sequence)


# -- what is found --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "classes",
    [
        (ALL,),
        (tuple(range(2, 17)), (1,)),
        ((2, 4, 8, 16), (1,), (3,), (5,), (6,), (7,), (9,), (10,), (11,), (12,), (13,), (14,), (15,)),
        (tuple(range(4, 17)), (1, 2, 3)),
        ((3, 5, 7, 9, 11, 13, 15), (2, 4, 8, 16), (10, 12, 14), (1, 6)),
    ],
    ids=["one", "plain apart", "powers", "blocks", "gaps"],
)
def test_classes_are_found_as_they_are(classes: Classes) -> None:
    target = TimedTarget(classes)
    assert find_classes(target, TEXT, target.clock) == classes


def test_no_width_agrees_with_another() -> None:
    target = TimedTarget()
    assert find_classes(target, TEXT, target.clock) == tuple((width,) for width in ALL)


def test_the_cache_is_left_empty() -> None:
    target = TimedTarget()
    target.extend(3, TEXT[:5])
    find_classes(target, TEXT, target.clock)
    assert target.length(PROBE_SEQUENCE) == 0
    assert target.length(3) == 5


@pytest.mark.parametrize(("max_rows", "widest"), [(1, 1), (2, 2), (5, 5), (16, 16), (64, 16)])
def test_no_pass_is_wider_than_the_target_can(max_rows: int, widest: int) -> None:
    target = TimedTarget((ALL,), replace(LIMITS, max_rows=max_rows))
    assert find_classes(target, TEXT, target.clock) == (tuple(range(1, widest + 1)),)
    assert max(target.widths, default=1) == widest


@pytest.mark.parametrize("n_ctx", [20, 40, 80, 100, 300, 400, 808, 4096])
def test_no_text_is_longer_than_the_target_can(n_ctx: int) -> None:
    target = TimedTarget((ALL,), replace(LIMITS, n_ctx=n_ctx))
    found = find_classes(target, TEXT, target.clock)
    assert found == (tuple(range(1, len(found[0]) + 1)),)
    assert target.longest < n_ctx
    assert (len(found[0]) > 1) == (n_ctx >= 40)


def test_a_model_that_cannot_roll_back_has_one_class() -> None:
    target = TimedTarget((ALL,), replace(LIMITS, can_rollback=False))
    assert find_classes(target, TEXT, target.clock) == ((1,),)
    assert target.widths == set()


def test_a_window_that_cannot_go_back_far_changes_nothing() -> None:
    """Then the text is read again for every width, in the same chunks."""
    target = TimedTarget(((2, 4, 8), (1, 3)))
    target.inner = ToyTarget(MODEL, target.inner.capabilities, window=4, rounding=True)
    assert find_classes(target, TEXT, target.clock)[:2] == ((2, 4, 8), (1, 3))


def test_an_interrupted_probe_leaves_nothing() -> None:
    target = TimedTarget()
    target.inner.extend(PROBE_SEQUENCE, TEXT[:1])
    with pytest.raises(ValueError, match="no pending token"):
        find_classes(target, TEXT[:10], target.clock)  # too short a text: it ends in the middle of the probe
    assert target.length(PROBE_SEQUENCE) == 0


# -- threads --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Shifted:
    """Rows that are a little off."""

    rows: Rows

    def logits(self, row: int) -> FloatArray:
        shifted: FloatArray = self.rows.logits(row) + np.float32(1e-6)
        return shifted


@dataclass(frozen=True, slots=True)
class Odd:
    """Where rows are not those of other threads: with these threads, at these widths, from a context on."""

    threads: tuple[int, ...] = ()
    widths: tuple[int, ...] = ALL
    context: int = 0


@dataclass(slots=True)
class ThreadedTarget(TimedTarget):
    odd: Odd = Odd()
    n_threads: int = 4
    tried: list[int] = field(default_factory=list)

    def set_threads(self, n: int, n_batch: int = 0) -> None:
        self.n_threads = n
        self.tried.append(n)

    def verify(self, requests: Sequence[VerifyRequest], width: int) -> list[Rows]:
        context = self.inner.length(requests[0].sequence)
        rows = TimedTarget.verify(self, requests, width)
        self.now += (self.pass_seconds + self.row_seconds * width) * (4 / self.n_threads - 1)
        odd = self.odd
        is_odd = self.n_threads in odd.threads and width in odd.widths and context >= odd.context
        return [Shifted(one) for one in rows] if is_odd else rows


@pytest.mark.parametrize(
    ("odd", "agreeing"),
    [
        (Odd(), (4, 2, 1)),
        (Odd((2,)), (4, 1)),
        (Odd((2, 1), (1,)), (4, 2, 1)),  # no width of the class
        (Odd((2, 1), (6,)), (4,)),
        (Odd((1,), (2,), 512), (4, 2)),
        (Odd((4,)), (4,)),
    ],
    ids=["none", "one of them", "another width", "one width", "long texts", "the first"],
)
def test_threads_that_agree_are_found(odd: Odd, agreeing: tuple[int, ...]) -> None:
    target = ThreadedTarget((ALL,), odd=odd)
    assert agreeing_threads(target, TEXT, (4, 2, 1), (2, 4, 6), target.clock) == agreeing
    assert target.tried == [4, 2, 1, 4]
    assert target.widths == {2, 4, 6}
    assert target.length(PROBE_SEQUENCE) == 0


@pytest.mark.parametrize(
    "limits",
    [
        replace(LIMITS, can_rollback=False),
        replace(LIMITS, n_ctx=THREAD_SCOPE.n_tokens - 1),
        replace(LIMITS, max_rows=5),
    ],
    ids=["no rollback", "short", "narrow"],
)
def test_a_target_that_cannot_be_compared_agrees_with_itself_only(limits: Capabilities) -> None:
    target = ThreadedTarget((ALL,), limits)
    assert agreeing_threads(target, TEXT, (4, 2, 1), (2, 4, 6), target.clock) == (4,)
    assert target.tried == []


@pytest.mark.parametrize(("pass_seconds", "tried"), [(0.01, [4, 2, 1]), (0.2, [4, 2]), (1.0, [4])])
def test_a_slow_model_is_compared_as_far_as_the_time_allows(pass_seconds: float, tried: list[int]) -> None:
    target = ThreadedTarget((ALL,), pass_seconds=pass_seconds)
    assert agreeing_threads(target, TEXT, (4, 2, 1), (2, 4, 6), target.clock) == tuple(tried)
    assert target.tried == [*tried, 4]


def test_a_broken_comparison_gives_the_threads_back() -> None:
    target = ThreadedTarget((ALL,))
    target.inner.extend(PROBE_SEQUENCE, TEXT[:1])
    with pytest.raises(ValueError, match="no pending token"):
        agreeing_threads(target, TEXT[:260], (4, 2), (2, 4), target.clock)
    assert target.n_threads == 4
    assert target.length(PROBE_SEQUENCE) == 0


# -- how long it takes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("read_seconds", "pass_seconds", "row_seconds", "widest", "border"),
    [
        (0.001, 0.005, 0.001, 16, 768),  # 0.1B on a laptop
        (0.005, 0.01, 0.004, 16, 768),
        (0.01, 0.02, 0.01, 16, 256),
        (0.03, 0.12, 0.03, 16, 256),
        (0.05, 0.3, 0.05, 8, 64),
        (0.1, 0.5, 0.05, 4, 16),  # 13B on a small one
        (0.5, 2.0, 0.5, 1, 0),
    ],
)
def test_a_slower_model_is_probed_less(
    read_seconds: float, pass_seconds: float, row_seconds: float, widest: int, border: int
) -> None:
    """Whatever its speed, the budget is kept; only the first passes cannot be spared."""
    target = TimedTarget((ALL,), LIMITS, read_seconds, pass_seconds, row_seconds)
    found = find_classes(target, TEXT, target.clock)
    assert found == (tuple(range(1, widest + 1)),)
    assert border <= target.longest < max(border, 32) + 48
    first_passes = 32 * read_seconds + 3 * pass_seconds + 18 * row_seconds
    assert target.now <= first_passes + 1.01 * BUDGET_SECONDS


def test_a_machine_that_gets_busy_in_the_middle_ends_the_probe() -> None:
    """Each pass takes a second from the moment on at which it was thought to take a thousandth."""
    target = TimedTarget((ALL,), read_seconds=1e-4, pass_seconds=1e-3)
    limit = LIMIT_FACTOR * BUDGET_SECONDS

    def clock() -> float:
        if target.now > 0.01:
            target.pass_seconds = 1.0
        return target.now

    found = probe_classes(target, TEXT, clock)
    assert found.classes == ((1,),)
    assert found.is_cut
    assert limit < target.now <= limit + 1.1
    assert target.length(PROBE_SEQUENCE) == 0


@pytest.mark.parametrize(("pass_seconds", "is_cut"), [(0.001, False), (0.1, True), (5.0, True)])
def test_a_probe_says_whether_time_was_short(pass_seconds: float, is_cut: bool) -> None:
    target = TimedTarget((ALL,), pass_seconds=pass_seconds)
    assert probe_classes(target, TEXT, target.clock).is_cut == is_cut


@pytest.mark.parametrize(
    "limits",
    [
        replace(LIMITS, can_rollback=False),
        replace(LIMITS, n_ctx=300),
        replace(LIMITS, n_ctx=20),
        replace(LIMITS, max_rows=1),
    ],
)
def test_what_the_target_has_no_room_for_is_no_cut(limits: Capabilities) -> None:
    target = TimedTarget((ALL,), limits, pass_seconds=0.001)
    assert not probe_classes(target, TEXT, target.clock).is_cut


def test_a_scope_that_the_target_has_no_room_for_compares_nothing() -> None:
    target = TimedTarget((ALL,), replace(LIMITS, n_ctx=300))
    assert find_classes(target, TEXT, target.clock, scopes=SCOPES[:1]) == ((1,),)
    assert target.widths == set()


def test_the_first_number_of_threads_has_a_time_limit_too() -> None:
    target = ThreadedTarget((ALL,), pass_seconds=5.0)
    found = compare_threads(target, TEXT, (4, 2, 1), (2, 4, 6), target.clock)
    assert (found.counts, found.is_cut) == ((4,), True)
    assert target.now <= BUDGET_SECONDS + 5.0
    assert target.n_threads == 4
    assert target.length(PROBE_SEQUENCE) == 0


@pytest.mark.parametrize(("pass_seconds", "is_cut"), [(0.01, False), (0.2, True)])
def test_a_comparison_of_threads_says_whether_time_was_short(pass_seconds: float, is_cut: bool) -> None:
    target = ThreadedTarget((ALL,), odd=Odd((2,)), pass_seconds=pass_seconds)
    assert compare_threads(target, TEXT, (4, 2, 1), (2, 4, 6), target.clock).is_cut == is_cut


def test_the_estimate_is_what_the_probe_takes() -> None:
    for scope in SCOPES:
        target = TimedTarget((ALL,), read_seconds=0.01, pass_seconds=0.1, row_seconds=0.02)
        speed = Speed(read=0.01, narrow=0.12, wide=0.42, widest=16)
        find_classes(target, TEXT, target.clock, budget_seconds=1e9, scopes=[scope])
        first_passes = 32 * 0.01 + 2 * 0.12 + 0.1 + 0.02 * min(16, scope.max_width)
        assert target.now - first_passes == pytest.approx(speed.seconds(scope), rel=1e-6)


def test_a_budget_can_be_given() -> None:
    target = TimedTarget((ALL,), read_seconds=0.01, pass_seconds=0.1)
    assert find_classes(target, TEXT, target.clock, budget_seconds=0.0) == ((1,),)
    assert find_classes(target, TEXT, target.clock, budget_seconds=1e9) == (ALL,)


def test_a_clock_that_stands_still_is_a_fast_model() -> None:
    assert Speed(0.0, 0.0, 0.0, 16).seconds(SCOPES[0]) == 0.0
    assert Speed(0.0, 0.0, 0.0, 1).seconds(SCOPES[0]) == 0.0


def test_scopes_get_ever_smaller_and_fit_the_text() -> None:
    speed = Speed(read=0.01, narrow=0.1, wide=0.5, widest=16)
    costs = [speed.seconds(scope) for scope in SCOPES]
    assert costs == sorted(costs, reverse=True)
    assert all(scope.n_tokens <= N_TEXT and scope.n_rows >= 16 for scope in SCOPES)
    assert Scope((256, 768), 16, 48).starts() == [232, 744]
    assert Scope((16,), 4, 48).starts() == [0]


# -- which one is best ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("classes", "best"),
    [
        ((ALL,), ALL),
        ((tuple(range(2, 17)), (1,)), tuple(range(2, 17))),
        # A class with width 1 that reaches 8 leaves plain rounds as they are.
        ((tuple(range(9, 17)), tuple(range(1, 9))), tuple(range(1, 9))),
        (((3, 5, 6, 7, 9, 10, 11), (1, 2, 4, 8)), (1, 2, 4, 8)),
        # One that stops short, or pads most rounds to twice their rows, does not.
        ((tuple(range(4, 17)), (1, 2, 3)), tuple(range(4, 17))),
        (((2, 3, 4, 5), (1, 8), (6,), (7,)), (2, 3, 4, 5)),
        (((1,), (2,), (3,)), (1,)),
        (((1,),), (1,)),
    ],
    ids=str,
)
def test_the_best_class_pads_least(classes: Classes, best: tuple[int, ...]) -> None:
    assert best_class(classes) == best


# -- on the real library --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Kind.LLAMA, Kind.GEMMA3])
def test_widths_of_a_class_agree_on_the_real_library(kind: Kind, toys: Toys, open_target: OpenTarget) -> None:
    """Whatever the classes are on this machine: rows read at any two widths of one are the same, bit for bit."""
    target = open_target(toys.path(kind))
    clock = iter(range(10**6))
    classes = find_classes(target, np.array(text_of(2, N_TEXT), np.int32), lambda: next(clock) * 1e-9)
    assert sorted(width for one in classes for width in one) == list(ALL)
    for widths in classes:
        rows = [at_width(target.sibling(512), width) for width in widths]
        assert all(same(a, b) for row in rows for a, b in zip(rows[0], row, strict=True))


def at_width(target: LlamaTarget, width: int) -> list[FloatArray]:
    """Rows of a text on both sides of 256 tokens, one real row to a pass and the rest padding."""
    with closing(target):
        read(target, text_of(3, 250), chunk=50)
        return [step(target, token, width) for token in text_of(4, 12)]


@pytest.mark.parametrize(
    "settings", [SETTINGS.windowed(), LlamaSettings(n_ctx=64, n_threads=1)], ids=["small", "short"]
)
def test_any_settings_can_be_probed(settings: LlamaSettings, toys: Toys, open_target: OpenTarget) -> None:
    target = open_target(toys.path(Kind.GEMMA3), settings)
    clock = iter(range(10**6))
    classes = find_classes(target, np.array(text_of(2, N_TEXT), np.int32), lambda: next(clock) * 1e-9)
    assert classes[0]
    assert target.length(PROBE_SEQUENCE) == 0
