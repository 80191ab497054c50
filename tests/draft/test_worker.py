"""What a worker reports for its orders, one by one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from edgespec.draft.messages import (
    Asked,
    Begun,
    Behind,
    Committed,
    Drafted,
    Ended,
    Failed,
    Report,
    Stopped,
    Verified,
    Wanted,
)
from edgespec.draft.worker import DraftWorker
from edgespec.spec.law import Law, SamplingSettings
from tests.draft.held_step import PATIENCE_SECONDS, HeldStep, Turnstile, at_once, until
from tests.draft.near_draft import good

LAW = Law(SamplingSettings())


@contextmanager
def working(step: HeldStep) -> Iterator[DraftWorker]:
    worker = DraftWorker(lambda: step, lambda: 0.0)
    yield worker
    worker.order(Stopped())
    worker.join(PATIENCE_SECONDS)
    assert step.n_closed == 1


def reports(worker: DraftWorker) -> list[Report]:
    """All that came until it had nothing left to do."""
    until(lambda: worker.is_quiet)
    found: list[Report] = []
    while not worker.reports.empty():
        found.append(worker.reports.get())
    return found


def drafts(worker: DraftWorker) -> list[Drafted]:
    return [one for one in reports(worker) if isinstance(one, Drafted)]


def test_each_draft_carries_the_epoch_it_is_for() -> None:
    with working(HeldStep(good())) as worker:
        worker.order(Begun(3, 7, (1, 2), LAW))
        assert {(one.sequence, one.epoch, one.n_accepted, one.token) for one in drafts(worker)} == {(3, 7, 0, 2)}
        worker.order(Asked(3, Wanted(3)))
        last = drafts(worker)[-1]
        assert (last.epoch, len(last.tokens), last.is_finished) == (7, 3, False)
        worker.order(Verified(3, 9, last.tokens, Wanted(2)))
        ahead = drafts(worker)
        assert {one.epoch for one in ahead} == {9}
        assert {one.n_accepted for one in ahead} == {0, 1, 2, 3}
        hit = next(one for one in reversed(ahead) if one.n_accepted == 3)
        worker.order(Committed(3, 9, 3, (*last.tokens, hit.token)))
        (root, *_) = drafts(worker)
        assert (root.epoch, root.n_accepted, root.token, root.tokens) == (9, 3, hit.token, hit.tokens)


def test_a_draft_after_a_commit_that_another_sequence_worked_through_is_behind_that_commit() -> None:
    """And one after a commit that a failure worked through: both are begun anew from the text alone."""
    fails = [False]

    def before(_: int) -> None:
        if fails[0]:
            raise RuntimeError("out of memory")

    with working(HeldStep(good(), before)) as worker:
        worker.order(Begun(0, 1, (1, 2), LAW))
        worker.order(Begun(1, 2, (1, 2), LAW))
        worker.order(Asked(1, Wanted(2)))
        worker.order(Asked(0, Wanted(2)))
        drafts(worker)
        worker.order(Verified(1, 3, (4, 5), Wanted(2)))
        worker.order(Committed(1, 3, 2, (4, 5, 6)))
        worker.order(Asked(1, Wanted(2)))
        last = drafts(worker)[-1]
        assert (last.sequence, last.epoch, last.n_accepted, last.token, len(last.tokens)) == (1, 3, 2, 6, 2)
        fails[0] = True
        worker.order(Verified(1, 4, (3, 3), Wanted(2)))
        worker.order(Committed(1, 4, 1, (3, 0)))
        reports(worker)
        fails[0] = False
        worker.order(Asked(1, Wanted(2)))
        last = drafts(worker)[-1]
        assert (last.epoch, last.n_accepted, last.token, len(last.tokens)) == (4, 1, 0, 2)


def test_messages_cannot_be_changed() -> None:
    with working(HeldStep(good())) as worker:
        worker.order(Begun(3, 7, (1, 2), LAW))
        for report in reports(worker):
            with pytest.raises(dataclasses.FrozenInstanceError):
                report.sequence = 4  # type: ignore[misc]


def test_orders_are_looked_up_between_two_calls() -> None:
    """A request that ended costs the call under way and no more, be it reading or drafting."""
    gate = Turnstile()
    step = HeldStep(good(), gate)
    with working(step) as worker:
        for n_before in (1, 4):
            worker.order(Begun(0, n_before, (1, 2), LAW))
            worker.order(Asked(0, Wanted(9)))
            gate.wait_for(gate.arrived + 1 if n_before == 1 else 2)
            n_calls = step.n_calls
            worker.order(Ended(0))
            gate.let(1)
            until(lambda: worker.is_quiet)
            assert step.n_calls == n_calls
        gate.open()


def test_a_failure_is_reported_and_nothing_done_until_asked_again() -> None:
    fails = [True]

    def before(_: int) -> None:
        if fails[0]:
            raise RuntimeError("out of memory")

    step = HeldStep(good(), before)
    with working(step) as worker:
        worker.order(Begun(0, 1, (1, 2), LAW))
        (failed,) = [one for one in reports(worker) if isinstance(one, Failed)]
        assert (failed.sequence, failed.epoch, str(failed.error)) == (0, 1, "out of memory")
        worker.order(Verified(0, 2, (), Wanted(3)))
        worker.order(Committed(0, 2, 0, (5,)))
        assert reports(worker) == []
        assert step.n_calls == 1
        fails[0] = False
        worker.order(Asked(0, Wanted(3)))
        assert len(drafts(worker)[-1].tokens) == 3


def test_a_sequence_that_ended_is_forgotten() -> None:
    with working(HeldStep(good())) as worker:
        worker.order(Begun(0, 1, (1, 2), LAW))
        worker.order(Ended(0))
        worker.order(Ended(0))
        worker.order(Asked(0, Wanted(1)))
        (failed,) = [one for one in reports(worker) if isinstance(one, Failed)]
        assert isinstance(failed.error, KeyError)
        worker.order(Begun(0, 2, (3,), LAW))
        assert drafts(worker)[-1].token == 3


def test_it_tells_how_far_behind_it_is() -> None:
    gate = Turnstile()
    with working(HeldStep(good(), gate)) as worker:
        worker.order(Begun(0, 1, (1, 2) * 25, LAW))
        gate.wait_for(1)
        gate.let(2)
        gate.wait_for(3)
        found = [one.n for one in (worker.reports.get() for _ in range(3)) if isinstance(one, Behind)]
        assert found == [49, 33, 17]
        gate.open()
        assert [one.n for one in reports(worker) if isinstance(one, Behind)][-1] == 0


def test_every_call_is_counted_and_none_is_under_way_at_rest() -> None:
    step = HeldStep(good(), at_once)
    with working(step) as worker:
        worker.order(Begun(0, 1, (1, 2), LAW))
        worker.order(Asked(0, Wanted(5)))
        reports(worker)
        assert worker.is_open
        assert worker.busy_since is None
        assert worker.n_steps == step.n_calls == 5
