"""The ways to answer that are compared: edgespec with one choice of drafts, or the bare library.

An arm gets every prompt as if it were its first: nothing of it is in any cache.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from typing import Protocol

from edgespec.bench.library_child import Question, Reply
from edgespec.bench.matches import NO_MATCHES, Matches, matches
from edgespec.engine import Answer, CancelToken, DraftChoice, Engine, GenerateOptions
from edgespec.engine.arrangement import better
from edgespec.engine.job import Request
from edgespec.errors import EngineFailure
from edgespec.events import Notice, RoundReport

# The arm that all others are compared with.
PLAIN = DraftChoice.OFF.value
DEFAULTS = "defaults"

# The main thread looks this often for Ctrl-C while it waits; waiting without end cannot be interrupted on Windows.
_POLL_SECONDS = 0.1

# llama.cpp's threads spin for some 20 ms after a pass before they sleep. Without a pause between the processes, those
# of the last arm would take the cores from the next one, whichever that is.
_SETTLE_SECONDS = 0.05

# Enough for a pass with drafts, too few to teach a policy anything.
_WARM_UP_TOKENS = 4


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer. first_token_seconds: from asking to the first token. decode_seconds: from the last prompt token but
    one to the end. total_seconds: from asking to the end. passes: of the target, after the prompt. plain_seconds: what
    the engine thinks that plain decoding would have taken, 0 if it does not know. matches: of what was drafted.
    """

    token_ids: tuple[int, ...]
    first_token_seconds: float
    decode_seconds: float
    total_seconds: float
    passes: int
    n_drafted: int
    n_accepted: int
    finish: str
    plain_seconds: float = 0.0
    notices: tuple[Notice, ...] = ()
    matches: Matches = NO_MATCHES


class Arm(Protocol):
    @property
    def name(self) -> str: ...

    def answer(self, prompt: Seq[int]) -> Answered:
        """Waits for the whole answer; Ctrl-C stops it and raises KeyboardInterrupt. Raises EdgeSpecErrors."""

    def warm_up(self, prompt: Seq[int]) -> None:
        """A few tokens that nobody measures: the first ones ever also bring the weights into memory."""

    def settle(self, prompt: Seq[int]) -> None:
        """Before each turn: if an answer to this prompt would begin with a change of settings, warm up with them, so
        that not just the first arm pays for the change.
        """


@dataclass(frozen=True, slots=True)
class EngineArm:
    """Every prompt is a new sequence of the one engine that all arms share."""

    engine: Engine
    name: str
    options: GenerateOptions

    def answer(self, prompt: Seq[int]) -> Answered:
        engine, rounds = self.engine, list[RoundReport]()
        with engine.submit(engine.new_sequence(), False, list(prompt), self.options, on_round=rounds.append) as answer:
            while not answer.wait(_POLL_SECONDS):
                pass
            done = answer.completion()
        timings = done.timings
        if timings.cached_prompt_tokens:
            raise EngineFailure(
                f"arm {self.name!r}", f"{timings.cached_prompt_tokens} prompt tokens were cached", "report this"
            )
        return Answered(
            done.token_ids,
            timings.first_token_seconds,
            timings.decode_seconds,
            timings.prompt_seconds + timings.decode_seconds,
            timings.passes,
            timings.draft_n,
            timings.draft_n_accepted,
            done.finish.value,
            timings.plain_seconds,
            done.notices,
            matches(prompt, rounds),
        )

    def warm_up(self, prompt: Seq[int]) -> None:
        """Broken off, not shortened: the settings depend on how long the answer may get."""
        cancel, n_seen = CancelToken(), 0

        def on_round(report: RoundReport) -> None:
            nonlocal n_seen
            n_seen += len(report.tokens)
            if n_seen >= _WARM_UP_TOKENS:
                cancel.cancel()

        engine = self.engine
        with engine.submit(
            engine.new_sequence(), False, list(prompt), self.options, cancel, on_round=on_round
        ) as answer:
            while not answer.wait(_POLL_SECONDS):
                pass
            answer.completion()

    def settle(self, prompt: Seq[int]) -> None:
        request = Request(0, False, list(prompt), self.options, Answer(CancelToken()))
        if better(self.engine.settings, self.engine.tuning, request, n_cached=0) is not None:
            self.warm_up(prompt)


@dataclass(frozen=True, slots=True)
class LibraryArm:
    """The library as it comes, greedy, with its own settings and its own copy of the model, in another process.

    `ask` gives its answer with the times taken over there.
    """

    ask: Callable[[Question], Reply]
    max_tokens: int
    end_tokens: frozenset[int]
    pause: Callable[[float], None] = time.sleep
    name: str = DEFAULTS

    def answer(self, prompt: Seq[int]) -> Answered:
        self.pause(_SETTLE_SECONDS)
        reply = self.ask(Question(tuple(prompt), self.max_tokens, tuple(sorted(self.end_tokens))))
        self.pause(_SETTLE_SECONDS)
        return Answered(
            reply.token_ids,
            reply.first_token_seconds,
            reply.decode_seconds,
            reply.read_seconds + reply.decode_seconds,
            reply.passes,
            0,
            0,
            reply.finish.value,
        )

    def warm_up(self, prompt: Seq[int]) -> None:
        replace(self, max_tokens=min(_WARM_UP_TOKENS, self.max_tokens)).answer(prompt)

    def settle(self, prompt: Seq[int]) -> None:
        """The library never changes its settings."""


def engine_arms(engine: Engine, names: Seq[str], options: GenerateOptions) -> tuple[EngineArm, ...]:
    """One for each choice of drafts, plain first, also when it is not named. Raises BadInput for an unknown name."""
    return tuple(EngineArm(engine, one.value, replace(options, draft=one)) for one in draft_choices(names))


def draft_choices(names: Seq[str]) -> tuple[DraftChoice, ...]:
    """Plain and what is named, each once; drafters joined with + are asked together. Raises BadInput."""
    choices = [DraftChoice.parse(name.replace("+", ",")) for name in names]
    return tuple(dict.fromkeys([DraftChoice.OFF, *choices]))
