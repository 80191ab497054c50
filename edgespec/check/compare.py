"""Asks an engine everything twice, with drafting and without, and judges the first token that differs.

A difference is a tie of rounding or a bug by the rule of `edgespec.replay`; between exact answers there are no ties.
What no replay gives again is undecided where threads or settings changed during the answers: each change brings other
roundings, and the replay knows of none. So only an undisturbed machine can show a bug in fast answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from edgespec.backend import machine
from edgespec.bench.asking import Asking
from edgespec.bench.prompts import Prompt
from edgespec.engine import Answer, DraftChoice, Engine, GenerateOptions
from edgespec.engine.choosing import cache_shape
from edgespec.engine.sockets import Interruptible
from edgespec.events import Completion, RoundReport
from edgespec.library.memory import check_memory
from edgespec.replay import Difference, Run, Verdict, explain, fresh_target
from edgespec.spec.law import Law

# Answers during which threads or settings changed may have roundings that no replay knows of: they are made anew.
_TRIES = 3
CORES_TAKEN = "cores-taken"

# A wait without end cannot be interrupted on Windows.
_POLL_SECONDS = 0.1


class Result(str, Enum):
    IDENTICAL = "identical"
    TIE = "tie"
    BUG = "bug"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Token:
    """id: None where the answer had ended."""

    id: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Shown:
    """A first difference as people and programs read it. gap: between the two largest logits at the plain width.

    rows: of the two deciding passes. replay: the one that proves a tie, "" without one. line: all of it in words.
    """

    position: int
    plain: Token
    drafted: Token
    gap: float | None
    rows: tuple[int, int]
    replay: str
    line: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """One prompt answered twice. n_tokens: of the plain answer; the other counts are of passes and of the draft."""

    id: str
    category: str
    result: Result
    n_prompt: int
    n_tokens: int
    n_passes_plain: int
    n_passes_drafted: int
    n_drafted: int
    n_accepted: int
    difference: Shown | None


def _wait(answer: Answer) -> Completion:
    with answer:
        while not answer.wait(_POLL_SECONDS):
            pass
        return answer.completion()


def result_of(difference: Difference | None, disturbed: bool) -> Result:
    """disturbed: there may be roundings that no replay knows of."""
    if difference is None:
        return Result.IDENTICAL
    if difference.verdict is Verdict.TIE:
        return Result.TIE
    return Result.UNDECIDED if disturbed else Result.BUG


def second_copy(engine: Engine) -> Interruptible:
    """With the settings that answers are made with now. Raises NotEnoughMemory before it is loaded, and what loading
    raises.
    """
    header, settings = engine.header, engine.settings
    check_memory(header, settings.n_ctx, cache_shape(header, settings), machine.available_memory_bytes())
    return fresh_target(header.path, settings)


class Comparer:
    """A second copy of the model, for replays, is made by `fresh` when answers first differ, and closed at the end."""

    def __init__(self, engine: Engine, fresh: Callable[[], Interruptible] | None = None) -> None:
        self._engine = engine
        self._asking = Asking(engine, engine.card)
        self._spelled = {token: text for text, token in engine.vocab.special_tokens.items()}
        self._make_fresh = fresh or (lambda: second_copy(engine))
        self._fresh: Interruptible | None = None
        self._fresh_settings = engine.settings

    def __enter__(self) -> Comparer:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._close_copy()

    def compare(self, prompt: Prompt, options: GenerateOptions) -> Comparison:
        """`options.draft` against no drafting. Raises the engine's errors, and what loading the second copy raises."""
        tokens, options = self._asking.tokens(prompt), replace(options, stop=(*options.stop, *self._asking.stops))
        for _ in range(_TRIES):
            settings = self._engine.settings
            plain, plain_end = self.ask(tokens, replace(options, draft=DraftChoice.OFF, prediction=""))
            drafted, drafted_end = self.ask(tokens, options)
            difference = self.judge(options, plain, drafted)
            notices = (*plain_end.notices, *drafted_end.notices)
            disturbed = settings != self._engine.settings or any(one.code == CORES_TAKEN for one in notices)
            result = result_of(difference, disturbed and not options.exact)
            if result is not Result.UNDECIDED:
                break
        return Comparison(
            prompt.id,
            prompt.category,
            result,
            len(tokens),
            len(plain.token_ids),
            plain_end.timings.passes,
            drafted_end.timings.passes,
            drafted_end.timings.draft_n,
            drafted_end.timings.draft_n_accepted,
            self.shown(difference, result) if difference else None,
        )

    def ask(self, prompt: list[int], options: GenerateOptions) -> tuple[Run, Completion]:
        """Wait for the answer; its rounds are in the run. Raises the engine's errors. Ctrl-C stops the answer."""
        rounds: list[RoundReport] = []
        answer = self._engine.submit(self._engine.new_sequence(), False, prompt, options, on_round=rounds.append)
        completion = _wait(answer)
        return Run(tuple(prompt), tuple(rounds), completion.token_ids), completion

    def judge(self, options: GenerateOptions, plain: Run, drafted: Run) -> Difference | None:
        """The first difference; where answers must be exact it is a bug whatever the replays say."""
        if plain.token_ids == drafted.token_ids:
            return None
        found = explain(self._copy(), Law(options.sampling), plain, drafted)
        return replace(found, verdict=Verdict.BUG) if found and options.exact else found

    def _copy(self) -> Interruptible:
        """With the settings that answers are made with now."""
        if self._fresh is None or self._fresh_settings != self._engine.settings:
            self._close_copy()
            self._fresh, self._fresh_settings = self._make_fresh(), self._engine.settings
        return self._fresh

    def _close_copy(self) -> None:
        if self._fresh is not None:
            self._fresh.close()
            self._fresh = None

    def shown(self, found: Difference, result: Result) -> Shown:
        return Shown(
            found.position,
            self._token(found.plain_token),
            self._token(found.drafted_token),
            found.outcomes[0].gap if found.outcomes else None,
            (found.plain_width, found.drafted_width),
            found.reproduced_by.value if found.reproduced_by else "",
            result.value + found.describe(self._piece).removeprefix(found.verdict.value),
        )

    def _token(self, token: int | None) -> Token:
        return Token(token, "" if token is None else self._piece(token).decode("utf-8", "replace"))

    def _piece(self, token: int) -> bytes:
        """Special tokens have no text in an answer; here they are shown as they are spelled."""
        return self._engine.vocab.piece(token) or self._spelled.get(token, "").encode()
