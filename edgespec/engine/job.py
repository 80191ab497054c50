"""One request inside the engine's thread: from prompt tokens to a completion. Owned by the worker, never shared.

Knows no cache and no target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from edgespec.engine.answer import Answer, RoundCallback
from edgespec.engine.options import GenerateOptions
from edgespec.engine.pair.placing import Course
from edgespec.events import Completion, Finish, Notice, Piece, RoundReport, Timings, TokenScore, Usage
from edgespec.spec.ports import Drafter, SequenceId, TokenLaw
from edgespec.spec.round import Drafting
from edgespec.spec.scores import Scorer
from edgespec.spec.sequence import SequenceState
from edgespec.text.constraint import Constraint
from edgespec.text.stream import Step, TextStream


@dataclass(frozen=True, slots=True)
class Request:
    """What the engine is asked for.

    Both callbacks run in the engine's thread: `on_round` after every round, `on_done` before the completion is handed
    out. notices: what the user should see first. constraint: the options' grammar, ready for this request alone.
    """

    sequence: SequenceId
    keep: bool  # the sequence's cache outlives the answer, for the next turn
    prompt: list[int]
    options: GenerateOptions
    answer: Answer
    on_done: Callable[[Completion], None] | None = None
    on_round: RoundCallback | None = None
    notices: tuple[Notice, ...] = ()
    constraint: Constraint | None = None


@dataclass(slots=True)
class Clocked:
    """Moments of one job, seconds on the worker's clock."""

    started: float = 0.0
    prefilled: float = 0.0
    first_token: float = 0.0
    ended: float = 0.0


@dataclass(slots=True, eq=False)
class Job:
    """A request being worked on. `n_read` prompt tokens are in the cache; decoding starts when all but one are.

    width_class: the widths an exact request stays inside, () for a fast one. saved_seconds: what its rounds would have
    taken without drafting, less what they took; None while that is unknown. course: whether the second model works
    beside the target for it, None where it does not draft.
    """

    request: Request
    stream: TextStream
    times: Clocked
    started: bool = False
    drafters: tuple[Drafter, ...] = ()
    width_class: tuple[int, ...] = ()
    n_read: int = 0
    n_cached: int = 0
    saved_seconds: float | None = None
    course: Course | None = None
    state: SequenceState | None = None
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    _drafting: Drafting | None = None

    @property
    def prefilling(self) -> bool:
        return self.state is None

    @property
    def exact(self) -> bool:
        return self.request.options.exact

    @property
    def cancelled(self) -> bool:
        return self.request.answer.cancel_token.cancelled

    @property
    def finish(self) -> Finish | None:
        """Why the answer is over; None while it goes on."""
        if self.state is not None and self.state.finish is not None:
            return self.state.finish
        return Finish.CANCELLED if self.cancelled else None

    def begin_decoding(self, law: TokenLaw, max_tokens: int, ends: frozenset[int]) -> None:
        request = self.request
        self.state = SequenceState.start(request.sequence, request.prompt, law, max_tokens, ends, self.width_class)
        if request.options.n_top_logprobs is not None:
            self.state.scorer = Scorer(request.options.n_top_logprobs)
        self._drafting = Drafting.of(self.state, self.drafters)
        for drafter in self.drafters:
            drafter.begin(request.sequence, np.array(request.prompt, np.int32))

    def notice(self, notice: Notice) -> None:
        self.notices.append(notice)
        self.request.answer.put(notice)

    def absorb(self, report: RoundReport) -> None:
        """Turn a round's tokens into text, up to where a stop string or a cancel ends the answer.

        Tokens behind that point are forgotten, as if the round had ended there. Raises the state's failure.
        """
        state = self.decoding
        if state.failure is not None:
            raise state.failure
        n_before = len(state.tokens) - len(report.tokens)
        for n_taken, (token, source) in enumerate(zip(report.tokens, report.sources, strict=True), 1):
            if token in state.end_tokens:
                break
            step = self.stream.push(token)
            self._give(step, source)
            if step.stopped or (n_taken < len(report.tokens) and self.cancelled):
                state.finish = Finish.STOP if step.stopped else Finish.CANCELLED
                del state.tokens[n_before + n_taken :]
                break
        self.request.answer.flush()
        if self.request.on_round is not None:
            self.request.answer.call(partial(self.request.on_round, report))

    def compare(self, report: RoundReport, t1_seconds: float) -> None:
        """Book a round against plain decoding of its tokens: a pass over the same sequences takes `t1_seconds`, 0 where
        that is unknown.
        """
        if t1_seconds > 0.0:
            saved = len(report.tokens) * t1_seconds - report.seconds
            self.saved_seconds = saved + (self.saved_seconds or 0.0)

    def flush(self) -> None:
        """No more tokens: give what was held back. A stop string may come to light only now."""
        step = self.stream.finish()
        self._give(step, "")
        if step.stopped and self.decoding.finish is Finish.LENGTH:
            self.decoding.finish = Finish.STOP

    def _give(self, step: Step, source: str) -> None:
        n_before = len(self.token_ids)
        self.token_ids += step.token_ids
        self.text += step.text
        if step.text or step.token_ids:
            scores = self._scores(n_before) if self.request.options.n_top_logprobs is not None else ()
            self.request.answer.put(Piece(step.text, step.token_ids, source, scores))

    def _scores(self, first: int = 0) -> tuple[TokenScore, ...]:
        """Of the ids given out so far, from number `first` on. They are the first of the tokens that were scored."""
        scorer = None if self.state is None else self.state.scorer
        return () if scorer is None else tuple(scorer.scores[first : len(self.token_ids)])

    @property
    def drafting(self) -> Drafting:
        """The same for every round."""
        assert self._drafting is not None, "the prompt is still being read"
        return self._drafting

    @property
    def decoding(self) -> SequenceState:
        assert self.state is not None, "the prompt is still being read"
        return self.state

    def completion(self, finish: Finish) -> Completion:
        usage, scores = Usage(len(self.request.prompt), len(self.token_ids)), self._scores()
        return Completion(self.text, tuple(self.token_ids), finish, usage, self._timings(), tuple(self.notices), scores)

    def _timings(self) -> Timings:
        state, times, options = self.state, self.times, self.request.options
        decode_seconds = times.ended - times.prefilled if state else 0.0
        n_output = len(self.token_ids)
        counts = state.counts if state else None
        return Timings(
            prompt_seconds=(times.prefilled or times.ended) - times.started,
            decode_seconds=decode_seconds,
            first_token_seconds=(times.first_token or times.ended) - times.started,
            tokens_per_second=n_output / decode_seconds if decode_seconds > 0 else 0.0,
            passes=counts.passes if counts else 0,
            draft_n=counts.n_drafted if counts else 0,
            draft_n_accepted=counts.n_accepted if counts else 0,
            drafter="+".join(sorted(counts.accepted_by)) if counts else "",
            exact=options.exact,
            width_class=self.width_class,
            padded_rows=counts.n_padded if counts else 0,
            cached_prompt_tokens=self.n_cached,
            seed=options.sampling.seed,
            plain_seconds=0.0 if self.saved_seconds is None else decode_seconds + self.saved_seconds,
            n_emitted=counts.n_emitted if counts else 0,
        )
