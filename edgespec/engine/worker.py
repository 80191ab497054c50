"""The one thread that talks to the target: it alternates prompt chunks and rounds, fairly among requests.

Requests reach it through a queue, events leave through each request's answer. At most one chunk is read between two
rounds, so that a long prompt never stalls another answer for longer than a chunk.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Protocol

import numpy as np

from edgespec.engine.cache import CacheBook
from edgespec.engine.job import Clocked, Job, Request
from edgespec.errors import ContextOverflow, EdgeSpecError, EngineFailure
from edgespec.events import Finish, Notice
from edgespec.spec.law import Law
from edgespec.spec.policy import Policy
from edgespec.spec.ports import Drafter, SequenceId, Target
from edgespec.spec.round import Drafting, Loop
from edgespec.spec.verify import PathVerifier
from edgespec.text.stream import TextStream
from edgespec.text.vocab import Vocabulary


class Interruptible(Target, Protocol):
    """A target whose running pass can be aborted from another thread."""

    interrupted: type[Exception]

    def interrupt(self) -> None: ...

    def resume(self) -> None: ...

    def close(self) -> None: ...


MakeDrafters = Callable[[Request, Callable[[Notice], None]], tuple[Drafter, ...]]
WidthClass = Callable[[Callable[[Notice], None]], tuple[int, ...]]


class Worker:
    """Owns the target from its first call to `close`."""

    def __init__(
        self,
        target: Interruptible,
        vocab: Vocabulary,
        policy: Policy,
        make_drafters: MakeDrafters,
        width_class: WidthClass,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._target = target
        self._vocab = vocab
        self._make_drafters = make_drafters
        self._width_class = width_class
        self._clock = clock
        self._loop = Loop(target, policy, PathVerifier(), clock)
        self._cache = CacheBook(target)
        self._inbox: SimpleQueue[Request | SequenceId | None] = SimpleQueue()
        self._waiting: list[Request] = []
        self._jobs: list[Job] = []
        self._reading: Job | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="edgespec-target", daemon=True)
        self._thread.start()

    # -- any thread ---------------------------------------------------------------------------------------------

    def submit(self, request: Request) -> None:
        self._inbox.put(request)
        request.answer.cancel_token.on_cancel(self._interrupt)

    def release(self, sequence: SequenceId) -> None:
        """Forget a conversation's cache."""
        self._inbox.put(sequence)

    def close(self) -> None:
        """Cancel everything, free the target, end the thread."""
        self._closing = True
        self._inbox.put(None)
        self._target.interrupt()
        self._thread.join()

    def _interrupt(self) -> None:
        """A pass that reads a cancelled prompt ends at once; a round that is cut short for it is simply run again."""
        reading = self._reading
        if reading is not None and reading.request.answer.cancel_token.cancelled:
            self._target.interrupt()

    # -- the worker's thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closing:
            self._take_messages(block=not self._jobs and not self._waiting)
            try:
                self._step()
            except self._target.interrupted:
                self._target.resume()
            except EdgeSpecError as error:
                self._fail_all(error)
            except Exception as error:  # a defect must end the answers it touches, never hang their readers
                self._fail_all(EngineFailure("the engine failed", repr(error), "report this, with the model's name"))
        self._fail_all(EngineFailure("the answer was dropped", "the engine was closed", "open it again"))
        self._target.close()

    def _take_messages(self, block: bool) -> None:
        while True:
            try:
                message = self._inbox.get(block=block)
            except Empty:
                return
            block = False
            if isinstance(message, Request):
                self._waiting.append(message)
            elif isinstance(message, int):
                self._cache.release(message)

    def _step(self) -> None:
        """One admission, one chunk, one round."""
        self._drop_cancelled()
        self._admit()
        reading = next((job for job in self._jobs if job.prefilling), None)
        if reading is not None:
            self._guarded(reading, self._read_chunk)
            if reading in self._jobs:  # the next chunk is another prompt's turn
                self._jobs.remove(reading)
                self._jobs.append(reading)
        self._round()

    def _guarded(self, job: Job, act: Callable[[Job], None]) -> None:
        """An error that belongs to one request ends that request only."""
        try:
            act(job)
        except EdgeSpecError as error:
            self._fail(job, error)

    def _admit(self) -> None:
        """Start waiting requests as far as the context holds all that run."""
        for request in list(self._waiting):
            try:
                if not self._cache.reserve(request, [job.request for job in self._jobs]):
                    return
                self._waiting.remove(request)
                self._start(request)
            except EdgeSpecError as error:
                self._waiting = [one for one in self._waiting if one is not request]
                request.answer.put(error)

    def _start(self, request: Request) -> None:
        started = self._clock()
        notices: list[Notice] = []
        kept = self._cache.keep_prefix(request, notices.append)
        stream = TextStream(self._vocab, request.options.stop)
        job = Job(request, (), stream, kept, kept, Clocked(started=started))
        job.drafters = self._make_drafters(request, job.notice)
        self._jobs.append(job)
        for notice in notices:
            job.notice(notice)

    def _read_chunk(self, job: Job) -> None:
        prompt = job.request.prompt
        end = min(job.n_read + self._target.capabilities.max_chunk, len(prompt) - 1)
        if end > job.n_read:
            self._reading = job
            try:
                self._target.extend(job.request.sequence, np.array(prompt[job.n_read : end], np.int32))
            finally:
                self._reading = None
            job.n_read = end
            self._cache.read(job.request.sequence, prompt[:end])
        if job.n_read == len(prompt) - 1:
            self._begin_decoding(job)

    def _begin_decoding(self, job: Job) -> None:
        options = job.request.options
        widths = self._width_class(job.notice) if options.exact else ()
        limit = min(options.max_tokens, self._target.capabilities.n_ctx - len(job.request.prompt))
        job.times.prefilled = self._clock()
        job.begin_decoding(Law(options.sampling), limit, self._vocab.end_tokens, widths)

    def _round(self) -> None:
        """One pass for all fast requests together, one for each exact request alone."""
        ready = [job for job in self._jobs if not job.prefilling]
        fast = [job for job in ready if not job.exact]
        for batch in [fast] * bool(fast) + [[job] for job in ready if job.exact]:
            reports = self._loop.run([Drafting(job.decoding, job.drafters) for job in batch])
            now = self._clock()
            for job, report in zip(batch, reports, strict=True):
                job.times.first_token = job.times.first_token or now
                job.absorb(report)
                if job.decoding.finish is not None:
                    self._finish(job, job.decoding.finish)

    # -- ends ---------------------------------------------------------------------------------------------------

    def _drop_cancelled(self) -> None:
        for job in [j for j in self._jobs if j.request.answer.cancel_token.cancelled]:
            self._finish(job, Finish.CANCELLED)
        for request in [r for r in self._waiting if r.answer.cancel_token.cancelled]:
            self._waiting.remove(request)
            job = Job(request, (), TextStream(self._vocab), 0, 0, Clocked(self._clock()))
            self._finish(job, Finish.CANCELLED)

    def _finish(self, job: Job, finish: Finish) -> None:
        job.times.ended = self._clock()
        if job.state is not None:
            job.flush()
            self._cache.settle(job)
        self._close_job(job)
        completion = job.completion(finish)
        if job.request.on_done is not None:
            job.request.on_done(completion)
        job.request.answer.put(completion)

    def _fail(self, job: Job, error: EdgeSpecError) -> None:
        self._close_job(job)
        self._cache.release(job.request.sequence)
        job.request.answer.put(error)

    def _fail_all(self, error: EdgeSpecError) -> None:
        for job in list(self._jobs):
            self._fail(job, error)
        for request in self._waiting:
            request.answer.put(error)
        self._waiting.clear()

    def _close_job(self, job: Job) -> None:
        if job in self._jobs:
            self._jobs.remove(job)
        for drafter in job.drafters:
            drafter.end(job.request.sequence)
        job.request.answer.cancel_token.forget(self._interrupt)
        if not job.request.keep:
            self._cache.release(job.request.sequence)


def check_fits(n_prompt: int, n_ctx: int) -> None:
    """Raises ContextOverflow unless a prompt leaves room for at least one token."""
    if n_prompt >= n_ctx:
        raise ContextOverflow(
            f"a prompt of {n_prompt} tokens",
            f"the context holds {n_ctx}",
            f"shorten it, or give --ctx-size {n_prompt + 256} if memory allows",
        )
