"""Drafts beside the target's pass: a worker drafts on while the target verifies; what came true is proposed at once.

Contract: `PipelinedDrafter` is a ports.Drafter for one request; `Pipeline` is what the requests of an engine share: one
network, one worker thread that owns it, and what has become of its work. What is proposed depends on how far the worker
got, so on time; what is accepted does not, so the answer is the same. Before the network has caught up with the text a
proposal is EMPTY at once; without a branch that came true it is drafted just in time, as far as the plan's deadline
allows. Nothing waits for the worker but such a proposal, and `close`. A network that raises is reported by the next
proposal; one that hangs, or cannot be opened, is given up with its worker, and a later `begin` starts a new one, after
pauses that double. Knows no target and no network.

Schedule: pipelined chain and recovery cache, after SSD (arXiv 2603.03251) and DuoDecoding (arXiv 2503.00784).
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from edgespec.draft.growth import Clock
from edgespec.draft.keeper import HANG_SECONDS, OPEN_SECONDS, Keeper
from edgespec.draft.messages import (
    Asked,
    Begun,
    Behind,
    Committed,
    Drafted,
    Ended,
    Failed,
    Order,
    Verified,
    Wanted,
)
from edgespec.draft.request import Request
from edgespec.draft.worker import DraftWorker
from edgespec.spec.law import Law
from edgespec.spec.ports import Commit, IntArray, Needs, Plan, Rows, SequenceId
from edgespec.spec.step import StepModel
from edgespec.spec.tree import EMPTY, DraftMode, DraftTree, chain

# Waking up takes a while, and a proposal later than its deadline is a fault: so much of the deadline is waited for.
_SHARE = 0.8
# How often a wait looks for a worker that hangs.
_GLANCE_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class PipelineCounts:
    """n_hits: passes after which the next draft, or some of it, was there at once; n_full_hits: those of them in which
    the whole verified draft was accepted. n_misses: the other passes. wait_seconds: waited for drafts just in time.
    n_steps: calls of the network. n_given_up: workers that hung or could not open their network.
    """

    n_hits: int = 0
    n_full_hits: int = 0
    n_misses: int = 0
    wait_seconds: float = 0.0
    n_steps: int = 0
    n_given_up: int = 0


class Pipeline:
    """`factory` opens the network, in the worker's thread. name: the drafter's. clock: seconds.

    rows_at_once: branches drafted in one call, where the network can. at_once: the share of the plan's tokens that a
    branch which came true must have to be proposed without waiting for more. All methods are for one thread.
    ahead: whether the worker may draft during passes; else it drafts when it is asked, and the cores are the target's.
    """

    def __init__(
        self,
        factory: Callable[[], StepModel],
        name: str = "draft",
        clock: Clock = time.monotonic,
        hang_seconds: float = HANG_SECONDS,
        open_seconds: float = OPEN_SECONDS,
        rows_at_once: int = 1,
        at_once: float = 0.0,
    ) -> None:
        self.name = name
        self.ahead = True
        self._at_once = at_once
        self._keeper = Keeper(factory, clock, hang_seconds, open_seconds, rows_at_once)
        self._clock = clock
        self._requests: dict[SequenceId, Request] = {}
        self._epoch = 0
        self._n_hits = self._n_full_hits = self._n_misses = 0
        self._wait_seconds = 0.0

    @property
    def counts(self) -> PipelineCounts:
        hits = (self._n_hits, self._n_full_hits, self._n_misses)
        return PipelineCounts(*hits, self._wait_seconds, self._keeper.n_steps, self._keeper.n_given_up)

    @property
    def worker(self) -> DraftWorker | None:
        """The present one, if there is one."""
        return self._keeper.worker

    @property
    def is_quiet(self) -> bool:
        """The worker has nothing to do, or there is none: a pass timed now runs alone."""
        return self.worker is None or self.worker.is_quiet

    def begin(self, sequence: SequenceId, prompt: IntArray, law: Law) -> None:
        self.look()
        self._keeper.start()
        tokens: tuple[int, ...] = tuple(prompt.tolist())
        request = self._requests[sequence] = Request(self._keeper.worker, self._next_epoch(), tokens)
        self._order(request, Begun(sequence, request.epoch, tokens, law))

    def n_unread(self, sequence: SequenceId) -> int:
        """Tokens that the worker has still to read before it drafts, as far as is known here; 0 without a worker."""
        self.look()
        request = self._requests[sequence]
        return request.n_behind if self._is_served(request) else 0

    def propose(self, sequence: SequenceId, plan: Plan) -> Drafted | None:
        """What the worker has for the text as it stands, or gets ready in time. Raises what has gone wrong, once."""
        request = self._requests[sequence]
        self.look()
        if request.failure is not None:
            failure, request.failure = request.failure, None
            raise failure
        if not self._is_served(request) or plan.max_nodes <= 0 or request.outcome is None:
            return None
        request.wanted = Wanted(plan.max_nodes, plan.min_survival)
        n_enough = max(1, ceil(self._at_once * plan.max_nodes)) if request.is_hit else plan.max_nodes
        if not request.has(n_enough):
            self._order(request, Asked(sequence, request.wanted))
            self._wait(request, n_enough, plan.deadline_seconds)
            if request.failure is not None:
                return self.propose(sequence, plan)
        return request.found

    def anticipate(self, sequence: SequenceId, draft: tuple[int, ...]) -> None:
        request = self._requests[sequence]
        self.look()
        request.renew(self._next_epoch())
        request.verified = draft
        self._order(request, Verified(sequence, request.epoch, draft, request.wanted))
        request.wanted = None

    def observe(self, sequence: SequenceId, path: list[int], tokens: tuple[int, ...]) -> None:
        request = self._requests[sequence]
        self.look()
        verified = request.verified
        if verified is None:
            request.renew(self._next_epoch())
        n_accepted = request.conclude(path, tokens)
        self._order(request, Committed(sequence, request.epoch, n_accepted, tokens))
        if verified is not None and self._is_served(request):
            self._n_hits += request.is_hit
            self._n_full_hits += request.is_hit and n_accepted == len(verified)
            self._n_misses += not request.is_hit

    def end(self, sequence: SequenceId) -> None:
        request = self._requests.pop(sequence, None)
        if request is not None:
            self._order(request, Ended(sequence))

    def close(self) -> None:
        """Let the worker free its network; waits for a call under way, but not for one that hangs."""
        self._keeper.close()

    def look(self) -> None:
        """Take in what the worker reported, and give it up where it is dead or hangs. Waits for nothing."""
        worker = self._keeper.worker
        while worker is not None and self._keeper.worker is worker:
            try:
                self._take(worker.reports.get_nowait())
            except queue.Empty:
                break
        hung = self._keeper.hung()
        if hung is not None:
            self._give_up(hung)

    def _take(self, report: Behind | Drafted | Failed) -> None:
        if isinstance(report, Failed) and report.sequence < 0:
            self._give_up(report.error)
            return
        request = self._requests.get(report.sequence)
        if request is not None:
            request.take(report)

    def _give_up(self, error: Exception) -> None:
        self._keeper.give_up()
        for request in self._requests.values():
            request.fail(error)

    def _wait(self, request: Request, n: int, deadline_seconds: float) -> None:
        """Until the draft has n tokens, or is finished, or out of time, or the worker has nothing left to do."""
        began = self._clock()
        end = began + _SHARE * deadline_seconds
        while request.worker is not None and self._is_served(request) and not (request.failure or request.n_behind):
            left = end - self._clock()
            if left <= 0.0 or request.has(n):
                break
            try:
                self._take(request.worker.reports.get(timeout=min(left, _GLANCE_SECONDS)))
            except queue.Empty:
                is_done = request.worker.is_quiet  # then all that will come is there
                self.look()
                if is_done:
                    break
        self.look()  # also what has come since the deadline was read
        self._wait_seconds += self._clock() - began

    def _next_epoch(self) -> int:
        self._epoch += 1
        return self._epoch

    def _is_served(self, request: Request) -> bool:
        return request.worker is not None and request.worker is self._keeper.worker

    def _order(self, request: Request, order: Order) -> None:
        """To the worker that knows the request, if it is still there."""
        if request.worker is not None and self._is_served(request):
            request.worker.order(order)


class PipelinedDrafter:
    """ports.Drafter over a pipeline, for the law of one request. Proposes chains, in mode COUPLED, or POINT at
    temperature 0. Calls for a sequence that has not begun raise KeyError.
    """

    needs = Needs.TOKENS

    def __init__(self, pipeline: Pipeline, law: Law) -> None:
        self.name = pipeline.name
        self._pipeline = pipeline
        self._law = law
        self._mode = DraftMode.POINT if law.settings.temperature == 0.0 else DraftMode.COUPLED

    def begin(self, sequence: SequenceId, prompt: IntArray) -> None:
        """The network begins to read, beside the target."""
        self._pipeline.begin(sequence, prompt, self._law)

    def behind(self, sequence: SequenceId) -> int:
        """0: the network reads as it goes, beside the target. A proposal before it has caught up is EMPTY."""
        return 0

    def propose(self, sequence: SequenceId, plan: Plan) -> DraftTree:
        found = self._pipeline.propose(sequence, plan)
        if found is None or plan.max_leaves <= 0:
            return EMPTY
        likely = [chance for chance in found.survival[: plan.max_nodes] if chance >= plan.min_survival]
        return chain(found.tokens[: len(likely)], likely, mode=self._mode) if likely else EMPTY

    def anticipate(self, sequence: SequenceId, tree: DraftTree) -> None:
        """The worker goes on from the first branch of what is verified, whoever guessed it; if it may."""
        if not self._pipeline.ahead:
            return
        parents: list[int] = tree.parents.tolist()
        n = next((node for node, parent in enumerate(parents) if parent != node - 1), len(parents))
        self._pipeline.anticipate(sequence, tuple(tree.tokens[:n].tolist()))

    def observe(self, sequence: SequenceId, commit: Commit, rows: Rows, nodes: IntArray) -> None:
        self._pipeline.observe(sequence, commit.path.tolist(), tuple(commit.tokens.tolist()))

    def end(self, sequence: SequenceId) -> None:
        """Waits for nothing: the worker drops its work at the end of the call under way."""
        self._pipeline.end(sequence)
