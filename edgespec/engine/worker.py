"""The one thread that talks to the target: it alternates prompt chunks and rounds, fairly among requests.

Requests reach it through a queue, events leave through each request's answer. At most one chunk is read between two
rounds, so that a long prompt never stalls another answer for longer than a chunk. What goes wrong with one request ends
that request only, and no answer is left without an end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from edgespec.engine.cache import CacheBook
from edgespec.engine.inbox import Inbox
from edgespec.engine.job import Clocked, Job, Request
from edgespec.engine.paced import PacedTarget
from edgespec.engine.pair.placing import Placer
from edgespec.engine.policies import Policies
from edgespec.engine.rounds import Rounds
from edgespec.engine.sockets import AgreeingThreads, Interruptible, MakeDrafters, Suit, WidthClass
from edgespec.engine.stepping import Stepping
from edgespec.errors import EdgeSpecError, EngineFailure
from edgespec.events import Finish
from edgespec.spec.law import Law
from edgespec.spec.ports import SequenceId
from edgespec.text.stream import TextStream
from edgespec.text.vocab import Vocabulary


class Worker:
    """Owns the target from its first call to `close`."""

    def __init__(
        self,
        target: Interruptible,
        vocab: Vocabulary,
        policies: Policies,
        make_drafters: MakeDrafters,
        width_class: WidthClass,
        end_tokens: frozenset[int],
        clock: Callable[[], float] = time.perf_counter,
        pacing: PacedTarget | None = None,
        agreeing_threads: AgreeingThreads | None = None,
        suit: Suit = lambda _request, _n_cached: False,
        placer: Placer | None = None,
        second: str = "",
        closing: Callable[[], None] = lambda: None,
        hurry: Callable[[bool], None] = lambda _is_urgent: None,
    ) -> None:
        """pacing: `target` with threads that follow the machine's load, for all passes of answers; None leaves them
        alone. agreeing_threads: what exact answers may step among; None freezes their threads. suit: called before a
        request that will run alone, with the tokens cached; True says that the target's cache is empty now. second: the
        name of the drafter that `placer` places. closing: frees what else belongs to this thread. hurry: whether an
        answer that is being made may be wanted no more, so that no drafter may keep this thread; from any thread.
        """
        self._target: Interruptible = pacing or target
        self._placer = placer or Placer()
        self._stepping = Stepping(pacing, agreeing_threads, self._placer)
        self._second = second
        self._closing = closing
        self._hurry = hurry
        self._vocab = vocab
        self._make_drafters = make_drafters
        self._width_class = width_class
        self._end_tokens = end_tokens
        self._clock = clock
        self._rounds = Rounds(self._target, policies, self._stepping, self._placer, clock)
        self._cache = CacheBook(self._target)
        self._suit = suit
        self._inbox = Inbox()
        self._waiting: list[Request] = []
        self._jobs: list[Job] = []
        self._forgotten: set[SequenceId] = set()
        self._reading: Job | None = None
        self._must_look = False  # something else than a round has taken time since answers were looked at
        self._thread = threading.Thread(target=self._run, name="edgespec-target", daemon=True)
        self._thread.start()

    # -- any thread ---------------------------------------------------------------------------------------------

    def submit(self, request: Request) -> None:
        """Raises EngineFailure when the worker has been closed."""
        request.answer.cancel_token.on_cancel(self._break_off)
        try:
            self._inbox.submit(request)
        except EngineFailure:
            request.answer.cancel_token.forget(self._break_off)
            raise

    @property
    def quiet(self) -> threading.Event:
        """Set while nothing is asked."""
        return self._inbox.quiet

    def between(self, act: Callable[[], None]) -> None:
        """Do something in the worker's thread, between two rounds."""
        self._inbox.put(act)

    def release(self, sequence: SequenceId) -> None:
        """Forget a conversation's cache, as soon as no answer needs it."""
        self._inbox.put(sequence)

    def close(self) -> None:
        """End every answer with an error, free the target, end the thread."""
        self._inbox.close()
        self._hurry(True)
        self._target.interrupt()
        if threading.current_thread() is not self._thread:  # a callback may close the engine
            self._thread.join()

    def _break_off(self) -> None:
        """What keeps the thread from a cancelled answer's end."""
        self._hurry(True)
        self._interrupt()

    def _interrupt(self) -> None:
        """A pass that reads a cancelled prompt ends at once; a round that is cut short for it is simply run again."""
        reading = self._reading
        if reading is not None and reading.cancelled:
            self._target.interrupt()

    # -- the worker's thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._inbox.closed:
                is_idle = not self._jobs and not self._waiting
                if is_idle or not self._inbox.empty():
                    self._take_messages(block=is_idle)
                    self._must_look = True
                self._turn()
        finally:  # whatever ends this thread, its readers are told
            self._shut()

    def _turn(self) -> None:
        try:
            self._step()
        except self._target.interrupted:
            self._must_look = True
            self._target.resume()
        except EdgeSpecError as error:
            self._fail_all(error)
        except Exception as error:  # a defect must end the answers it touches, never hang their readers
            self._fail_all(_defect(error))

    def _shut(self) -> None:
        self._inbox.close()
        try:
            self._take_messages(block=False)
        finally:
            self._fail_all(EngineFailure("the answer was dropped", "the engine was closed", "open it again"))
            self._closing()
            self._target.close()

    def _take_messages(self, block: bool) -> None:
        while block or not self._inbox.empty():  # only this thread takes messages out
            message = self._inbox.take()
            block = False
            if isinstance(message, Request):
                self._waiting.append(message)
            elif isinstance(message, int):
                self._forgotten.add(message)
                self._forget()
            elif message is not None:
                message()

    def _step(self) -> None:
        """One admission, one chunk, one round."""
        if self._waiting or self._must_look:  # else they were just looked at, after the last round
            self._must_look = False
            self._end_jobs()
            self._admit()
        self._read()
        self._round()
        self._end_jobs()
        if self._forgotten:
            self._forget()

    def _guarded(self, job: Job, act: Callable[[Job], None]) -> None:
        """An error that belongs to one request ends that request only."""
        try:
            act(job)
        except self._target.interrupted:
            raise
        except EdgeSpecError as error:
            self._fail(job, error)
        except Exception as error:  # as in `_turn`
            self._fail(job, _defect(error))

    # -- starting and reading -----------------------------------------------------------------------------------

    def _admit(self) -> None:
        """Take on waiting requests, first come first served, as far as the context holds all that run."""
        while self._waiting and self._cache.reserve(self._waiting[0], [job.request for job in self._jobs]):
            request, times = self._waiting[0], Clocked(self._clock())
            if not self._jobs and self._suit(request, self._cache.n_tokens):
                self._cache.forget_all()
            self._jobs.append(Job(request, TextStream(self._vocab, request.options.stop), times))
            self._waiting.pop(0)

    def _read(self) -> None:
        """One chunk of one prompt; the next chunk is another prompt's turn."""
        job = next((job for job in self._jobs if job.prefilling), None)
        if job is None:
            return
        self._guarded(job, self._read_chunk)
        if job in self._jobs:
            self._jobs.remove(job)
            self._jobs.append(job)

    def _read_chunk(self, job: Job) -> None:
        if not job.started:
            self._start(job)
        prompt = job.request.prompt
        end = min(job.n_read + self._target.capabilities.max_chunk, len(prompt) - 1)
        if end > job.n_read:
            self._extend(job, prompt[job.n_read : end])
            job.n_read = end
            self._cache.read(job.request, end)
        if job.n_read == len(prompt) - 1:
            self._begin_decoding(job)

    def _start(self, job: Job) -> None:
        if job.exact:
            self._probe(job)
        for notice in job.request.notices:
            job.notice(notice)
        job.n_read = job.n_cached = self._cache.keep_prefix(job.request, job.notice)
        if self._target.capabilities.can_rollback:
            job.drafters = self._make_drafters(job.request, job.notice)
            drafts = any(drafter.name == self._second for drafter in job.drafters)
            job.course = self._placer.begin(job.exact, drafts)
        job.started = True

    def _probe(self, job: Job) -> None:
        """What an exact answer must know first; it may have to be measured, which a cancelled request ends at once."""
        self._stepping.begin(job)
        self._reading = job
        self._interrupt()  # it may have been cancelled a moment ago
        try:
            job.width_class = self._width_class(job.notice)
            self._stepping.probed(job)
        finally:
            self._reading = None

    def _extend(self, job: Job, tokens: list[int]) -> None:
        self._stepping.settle()
        self._reading = job
        self._interrupt()  # as in `_probe`
        try:
            self._target.extend(job.request.sequence, np.array(tokens, np.int32))
        finally:
            self._reading = None
        self._stepping.tell([job])

    def _begin_decoding(self, job: Job) -> None:
        options = job.request.options
        limit = min(options.max_tokens, self._target.capabilities.n_ctx - len(job.request.prompt))
        job.times.prefilled = self._clock()
        constraint = job.request.constraint
        mask = None if constraint is None else constraint.mask(len(job.request.prompt))
        job.begin_decoding(Law(options.sampling, mask), limit, self._end_tokens)
        self._rounds.policy([job]).charge(self._clock() - job.times.prefilled)

    # -- decoding -----------------------------------------------------------------------------------------------

    def _round(self) -> None:
        """One round for every request."""
        for batch in self._rounds.batches([job for job in self._jobs if not job.prefilling]):
            try:
                reports = self._rounds.run(batch)
            except EdgeSpecError as error:
                for job in batch:
                    self._fail(job, error)
                continue
            for job, report in zip(batch, reports, strict=True):
                self._guarded(job, partial(Job.absorb, report=report))

    # -- ends ---------------------------------------------------------------------------------------------------

    def _end_jobs(self) -> None:
        """Finish the answers that are complete or cancelled, also those that had not begun."""
        self._hurry(self._inbox.closed)  # first of all: one that is cancelled from here on is still hurried for
        if self._waiting:
            self._end_waiting()
        for job in [job for job in self._jobs if job.finish is not None]:
            self._guarded(job, self._finish)

    def _end_waiting(self) -> None:
        cancelled = [request for request in self._waiting if request.answer.cancel_token.cancelled]
        self._jobs += [Job(request, TextStream(self._vocab), Clocked(self._clock())) for request in cancelled]
        self._waiting = [request for request in self._waiting if request not in cancelled]

    def _finish(self, job: Job) -> None:
        job.times.ended = self._clock()
        if job.state is not None:
            self._cache.settle(job)
            job.flush()
        completion = job.completion(job.finish or Finish.CANCELLED)
        if job.request.on_done is not None:
            job.request.on_done(completion)
        self._close_job(job)
        job.request.answer.put(completion)

    def _fail(self, job: Job, error: EdgeSpecError) -> None:
        self._close_job(job)
        self._cache.release(job.request.sequence)
        job.request.answer.put(error)

    def _fail_all(self, error: EdgeSpecError) -> None:
        for job in list(self._jobs):
            self._fail(job, error)
        for request in self._waiting:
            request.answer.cancel_token.forget(self._break_off)
            request.answer.put(error)
        self._waiting.clear()

    def _close_job(self, job: Job) -> None:
        if job in self._jobs:
            self._jobs.remove(job)
        for drafter in job.drafters:
            drafter.end(job.request.sequence)
        self._rounds.end(job)
        job.request.answer.cancel_token.forget(self._break_off)
        self._stepping.end(job)
        if not job.request.keep:
            self._cache.release(job.request.sequence)

    def _forget(self) -> None:
        """Drop the caches that nobody wants any more, unless an answer is still being made from them."""
        busy = {job.request.sequence for job in self._jobs} | {request.sequence for request in self._waiting}
        for sequence in self._forgotten - busy:
            self._cache.release(sequence)
        self._forgotten &= busy


def _defect(error: Exception) -> EngineFailure:
    return EngineFailure("the engine failed", repr(error), "report this, with the model's name")
