"""Tells why two answers to one request differ: the rounding of another batch width (a tie) or a defect (a bug).

Contract: a difference is a tie only if a fresh cache, read with the widths in question, gives the one token and the
other again. Two replays try it. STRICT reads the common text in prompt chunks, then only the two deciding passes at
their own widths. SCHEDULED reads it in passes of the same widths as the answers did, since a width leaves its rounding
in the cache too.

Neither goes the way that is under suspicion: no tree, no accepted path, no rollback. The text is pending tokens of a
sequence that only ever grows; whatever else a pass held are pending tokens of a second sequence, thrown away after it.
Where rejected rows lay before accepted ones, a third sequence holds their cells meanwhile, so that the text lies in the
same cells as it did. Does not know how answers are made.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgespec.backend.settings import LlamaSettings
from edgespec.events import RoundReport
from edgespec.spec.ports import Commit, FloatArray, Target, TokenLaw, VerifyRequest
from edgespec.spec.tree import EMPTY

if TYPE_CHECKING:
    from edgespec.backend.llama.target import LlamaTarget

# Sequences of the replay's own; the engine hands out ids from 0 and the width probe has -1.
_TEXT, _BESIDE, _HELD, _LEFT_FREE = -2, -3, -4, -5


class Verdict(str, Enum):
    TIE = "tie"
    BUG = "bug"


class Method(str, Enum):
    STRICT = "strict"
    SCHEDULED = "scheduled"


@dataclass(frozen=True, slots=True)
class Run:
    """One answer as it was made: its prompt, its rounds in order, and the ids of the tokens that were given out."""

    prompt: tuple[int, ...]
    rounds: tuple[RoundReport, ...]
    token_ids: tuple[int, ...]

    @property
    def emitted(self) -> tuple[int, ...]:
        """All tokens of all rounds, also an end token and what came after a stop string in the same round."""
        return tuple(token for one in self.rounds for token in one.tokens)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one replay made of the two passes. gap: distance of the two largest logits at the plain width."""

    method: Method
    plain_token: int
    drafted_token: int
    gap: float


@dataclass(frozen=True, slots=True)
class Difference:
    """The first token in which two answers differ, None where one of them had ended already.

    position: index of the token in the answer. Widths: rows of the deciding passes. outcomes: the replays made, the one
    that proves a tie last; none when one answer had ended.
    """

    verdict: Verdict
    position: int
    plain_token: int | None
    drafted_token: int | None
    plain_width: int
    drafted_width: int
    outcomes: tuple[Outcome, ...]

    @property
    def reproduced_by(self) -> Method | None:
        return self.outcomes[-1].method if self.verdict is Verdict.TIE else None

    def describe(self, piece: Callable[[int], bytes]) -> str:
        """One line for people; `piece` gives a token's bytes."""
        tokens = f"{_shown(self.plain_token, piece)} / {_shown(self.drafted_token, piece)}"
        replays = "; ".join(f"{o.method.value} replay {o.plain_token} / {o.drafted_token}" for o in self.outcomes)
        gap = f", logit gap {self.outcomes[0].gap:.3g}" if self.outcomes else ""
        widths = f"rows {self.plain_width} / {self.drafted_width}"
        return f"{self.verdict.value} at token {self.position}: {tokens}, {widths}{gap}, {replays or 'no replay'}"


def explain(target: Target, law: TokenLaw, plain: Run, drafted: Run) -> Difference | None:
    """The verdict on the first difference between two answers to the same request, None if there is none.

    `target` runs the model with the settings that both answers were made with, `law` is their sampling. Its cache must
    have room for the text once more. Raises ValueError when the prompts differ, and what the target raises.
    """
    if plain.prompt != drafted.prompt:
        raise ValueError("only answers to the same prompt can be compared")
    if plain.token_ids == drafted.token_ids:
        return None
    position = _first_difference(plain.emitted, drafted.emitted)
    if position is None:
        return _ended_apart(plain, drafted)
    wanted = (plain.emitted[position], drafted.emitted[position])
    outcomes: list[Outcome] = []
    verdict = Verdict.BUG
    for method in Method:
        outcomes.append(_outcome(target, law, plain, drafted, position, method))
        if (outcomes[-1].plain_token, outcomes[-1].drafted_token) == wanted:
            verdict = Verdict.TIE
            break
    widths = (_deciding(plain, position).n_rows, _deciding(drafted, position).n_rows)
    return Difference(verdict, position, *wanted, *widths, tuple(outcomes))


def fresh_target(path: Path, settings: LlamaSettings) -> LlamaTarget:
    """A second copy of an engine's model, to replay on beside it; the caller closes it. Raises what loading raises."""
    from edgespec.backend.llama.native import load_model
    from edgespec.backend.llama.target import LlamaTarget

    return LlamaTarget(load_model(path, settings), settings)


def _first_difference(a: Seq[int], b: Seq[int]) -> int | None:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)


def _ended_apart(plain: Run, drafted: Run) -> Difference:
    """One answer stopped earlier than the other though they agree as far as both go: no rounding does that."""
    position = min(len(plain.token_ids), len(drafted.token_ids))
    tokens = [run.token_ids[position] if position < len(run.token_ids) else None for run in (plain, drafted)]
    widths = [run.rounds[-1].n_rows if run.rounds else 0 for run in (plain, drafted)]
    return Difference(Verdict.BUG, position, tokens[0], tokens[1], widths[0], widths[1], ())


def _shown(token: int | None, piece: Callable[[int], bytes]) -> str:
    return "the end" if token is None else f"{piece(token).decode('utf-8', 'replace')!r} ({token})"


def _outcome(target: Target, law: TokenLaw, plain: Run, drafted: Run, position: int, method: Method) -> Outcome:
    plain_row, drafted_row = (_replay(target, run, position, method) for run in (plain, drafted))
    history = [*plain.prompt, *plain.emitted[:position]]
    second, first = np.partition(plain_row, -2)[-2:].tolist()
    return Outcome(method, law.choose(plain_row, history), law.choose(drafted_row, history), first - second)


# -- one replay ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Pass:
    """One pass to be made again: `text` prolongs the sequence, `beside` are the rows it shared the pass with.

    rows: for each token of the text, which row of the pass it was.
    """

    text: list[int]
    beside: list[int]
    rows: list[int]


def _replay(target: Target, run: Run, position: int, method: Method) -> FloatArray:
    """float32[n_vocab]: the row that decided token `position`, computed anew from an empty cache."""
    passes = _passes(run, position)
    if method is Method.STRICT:
        passes = passes[-1:]
    text = [*run.prompt, *run.emitted[:position]]
    n_read = len(text) - sum(len(one.text) for one in passes)
    try:
        _read(target, text[:n_read])
        for one in passes[:-1]:
            n_read += len(one.text)
            _verify(target, one)
            _settle(target, text[n_read])
        return _verify(target, passes[-1])
    finally:
        for sequence in (_HELD, _LEFT_FREE, _BESIDE, _TEXT):
            target.release(sequence)


def _passes(run: Run, position: int) -> list[_Pass]:
    """The passes up to the one that decided token `position`; the last one ends in the deciding row."""
    passes: list[_Pass] = []
    text = [*run.prompt, *run.emitted]
    n_committed = len(run.prompt)
    end = n_committed + position
    for one, following in zip(run.rounds, [*run.rounds[1:], None], strict=True):
        n_cached = n_committed - one.n_pending
        n_committed += len(one.tokens)
        if following is None or end < n_committed:
            return [*passes, _pass(one, text[n_cached:end])]
        # What the next round reads as pending was not kept by this one.
        passes.append(_pass(one, text[n_cached : n_committed - following.n_pending]))
    raise ValueError("an answer without rounds has no deciding pass")


def _pass(one: RoundReport, text: list[int]) -> _Pass:
    """The round with `text` as the part that counts: its pending tokens, then accepted nodes as far as they matter."""
    kept = one.path[: len(text) - one.n_pending]
    others = [token for node, token in enumerate(one.tree_tokens) if node not in kept]
    n_filling = one.n_rows - len(text) - len(others)
    rows = [*range(one.n_pending), *(one.n_pending + node for node in kept)]
    return _Pass(text, others + text[:1] * n_filling, rows)


def _deciding(run: Run, position: int) -> RoundReport:
    n_emitted = 0
    for one in run.rounds:
        n_emitted += len(one.tokens)
        if position < n_emitted:
            return one
    raise ValueError(f"the rounds end before token {position}")


def _read(target: Target, tokens: list[int]) -> None:
    """In the chunks in which prompts are read."""
    step = target.capabilities.max_chunk
    for start in range(0, len(tokens), step):
        target.extend(_TEXT, np.array(tokens[start : start + step], np.int32))


def _verify(target: Target, one: _Pass) -> FloatArray:
    """float32[n_vocab]: the row of the last token of the text."""
    _hold(target, one.rows)
    requests = [VerifyRequest(_TEXT, np.array(one.text, np.int32), EMPTY, canonical=False)]
    if one.beside:
        requests.append(VerifyRequest(_BESIDE, np.array(one.beside, np.int32), EMPTY, canonical=False))
    rows = target.verify(requests, len(one.text) + len(one.beside))
    return np.array(rows[0].logits(0))


def _hold(target: Target, rows: list[int]) -> None:
    """Take the cells of the rows between the text's, so that its next tokens skip them. Nothing to do for a chain."""
    if rows[-1] >= len(rows):
        for row in range(rows[-1]):
            target.extend(_LEFT_FREE if row in rows else _HELD, np.zeros(1, np.int32))
        target.release(_LEFT_FREE)


def _settle(target: Target, following: int) -> None:
    """Keep the pass just made. The rewind drops nothing; it says that more than the bonus may follow."""
    target.release(_HELD)
    target.release(_BESIDE)
    target.commit(_TEXT, Commit(np.empty(0, np.int32), np.array([following], np.int32)))
    target.rewind(_TEXT, target.length(_TEXT))
