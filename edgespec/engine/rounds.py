"""Rounds of answers: which of them share a pass, by which policy and verifier, and what each round was worth.

Knows no queue and no ends of answers. Used by the worker's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from edgespec.engine.job import Job
from edgespec.engine.pair.placing import Placer
from edgespec.engine.policies import Policies
from edgespec.engine.sockets import Interruptible
from edgespec.engine.stepping import Stepping
from edgespec.events import RoundReport
from edgespec.spec.policy import Policy
from edgespec.spec.ports import Verifier
from edgespec.spec.ratio import PATH, verifier_of
from edgespec.spec.round import Drafting, Loop


class Rounds:
    def __init__(
        self,
        target: Interruptible,
        policies: Policies,
        stepping: Stepping,
        placer: Placer,
        clock: Callable[[], float],
    ) -> None:
        self._target = target
        self._policies = policies
        self._stepping = stepping
        self._placer = placer
        self._clock = clock
        self._verifiers: dict[str, Verifier] = {}
        self._loop = Loop(target, policies.of(()), self._verifier(PATH), clock)
        self._batch: list[Job] = []  # the last round's
        self._drafting: list[Drafting] = []
        self._generation = 0  # of the policies then
        self._asked: list[Policy] = []  # those that have decided anything; there are few, and they are kept for good

    def batches(self, ready: list[Job]) -> Iterator[list[Job]]:
        """Those with the same verifier share passes; an exact one is alone here (see CacheBook.reserve)."""
        if len(ready) == 1:
            yield ready
            return
        n_rows = self._target.capabilities.max_rows
        for verify in dict.fromkeys([job.request.options.verify for job in ready]):
            alike = [job for job in ready if job.request.options.verify == verify]
            for start in range(0, len(alike), n_rows):
                yield alike[start : start + n_rows]

    def policy(self, batch: list[Job]) -> Policy:
        return self._policies.of({job.request.options.draft for job in batch if job.drafters})

    def run(self, batch: list[Job]) -> list[RoundReport]:
        """One pass; the jobs' states are advanced, one report each comes back. Raises what `Loop.run` raises."""
        self._stepping.settle(batch)
        if batch != self._batch or self._generation != self._policies.generation:
            self._gather(batch)
        reports = self._loop.run(self._drafting)
        self._stepping.tell(batch)
        t1_seconds = self._loop.policy.t1_seconds
        for job, report in zip(batch, reports, strict=True):
            job.times.first_token = job.times.first_token or self._clock()
            self._compare(job, report, t1_seconds, len(batch))
        return reports

    def _gather(self, batch: list[Job]) -> None:
        """What follows from whose round it is, and stays as it is while they are the same."""
        policy, verifier = self.policy(batch), self._verifier(batch[0].request.options.verify)
        if self._loop.policy is not policy or self._loop.verifier is not verifier:
            self._loop = replace(self._loop, policy=policy, verifier=verifier)
        if all(one is not policy for one in self._asked):
            self._asked.append(policy)
        self._batch, self._drafting = batch, [job.drafting for job in batch]
        self._generation = self._policies.generation

    def end(self, job: Job) -> None:
        """Its answer is over. A policy may have decided for it that would not now: others have come and gone."""
        self._batch, self._drafting = [], []
        for policy in self._asked:
            policy.end(job.request.sequence)

    def _verifier(self, name: str) -> Verifier:
        if name not in self._verifiers:
            self._verifiers[name] = verifier_of(name)
        return self._verifiers[name]

    def _compare(self, job: Job, report: RoundReport, t1_seconds: float, n_sequences: int) -> None:
        """Against plain decoding; beside a draft that means on all cores."""
        if job.course is not None and job.course.beside:
            t1_seconds = self._placer.plain_seconds(len(job.decoding.tokens)) or t1_seconds
        if job.course is not None and t1_seconds > 0.0:
            job.course.settle(report.seconds / n_sequences, len(report.tokens), t1_seconds)
        job.compare(report, t1_seconds * n_sequences)
