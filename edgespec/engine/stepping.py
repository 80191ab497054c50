"""What the worker does about threads around its passes; nothing at all where the target is not paced.

Knows requests, unlike `edgespec.engine.paced`: exact ones keep their threads, and every answer that ran with fewer says
so once.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

from edgespec.engine.job import Job
from edgespec.engine.paced import PacedTarget
from edgespec.engine.pair.placing import Placer
from edgespec.engine.sockets import AgreeingThreads


class Stepping:
    """agreeing_threads: what exact answers may step among; None freezes their threads. placer: of the second model."""

    def __init__(
        self, pacing: PacedTarget | None, agreeing_threads: AgreeingThreads | None, placer: Placer | None = None
    ) -> None:
        self._placer = placer or Placer()
        self._pacing = pacing
        self._agreeing_threads = agreeing_threads
        self._exact: Job | None = None

    def settle(self, jobs: Seq[Job] = ()) -> None:
        """Before a pass, or before a round of these: where a draft works beside them, its core is left to it."""
        beside = any(job.course is not None and job.course.beside for job in jobs)
        if self._pacing is not None:
            self._pacing.leave_cores(beside)
            self._pacing.settle()
        self._placer.work_ahead(beside)

    def tell(self, jobs: Seq[Job]) -> None:
        """After a pass or a round of these."""
        notice = self._pacing.notice() if self._pacing is not None else None
        if notice is None:
            return
        for job in jobs:
            if all(one.code != notice.code for one in job.notices):
                job.notice(notice)

    def begin(self, job: Job) -> None:
        """An exact answer begins, alone: all threads are back before anything of it is read or probed."""
        if self._pacing is not None:
            self._exact = job
            self._pacing.restrict(())

    def probed(self, job: Job) -> None:
        """Its widths are known: from now on threads may change where that shows in no bit."""
        if self._pacing is not None and self._agreeing_threads is not None:
            self._pacing.restrict(self._agreeing_threads(job.notice))

    def end(self, job: Job) -> None:
        if job is self._exact and self._pacing is not None:
            self._exact = None
            self._pacing.unrestrict()
