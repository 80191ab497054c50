"""A step model beside the target it was made from, on the same texts: agreement, and what a step of each takes.

Both are handed in, and so is the clock. Nothing here depends on what they run on.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np

from edgespec.exporting.agreement import Agreement, RowDifference, difference, summary
from edgespec.exporting.texts import Text, read
from edgespec.spec.ports import Commit, IntArray, Target, VerifyRequest
from edgespec.spec.step import StepModel
from edgespec.spec.tree import EMPTY, chain

# Rows of one of the target's passes: more of them cost less each, and its buffer holds that many.
TARGET_ROWS = 32
# Pairs of steps; the median of fewer moves by several percent between runs.
N_TIMED = 60
_SEQUENCE = 0


@dataclass(frozen=True, slots=True)
class StepSeconds:
    """Medians over steps of one token."""

    step: float
    target: float


def measure_agreement(
    target: Target, step: StepModel, texts: Seq[Text], on_rows: Callable[[int], None] = lambda _: None
) -> Agreement:
    """At every token of the answers, both having read the same text before it. As in drafting, the step model takes one
    token at a time and the target many in a pass. on_rows: told how many are compared.

    Raises ValueError without texts, and what target and step model raise.
    """
    found: list[RowDifference] = []
    for text in texts:
        found += _compare(target, step, text, on_rows)
    return summary(found)


def _compare(target: Target, step: StepModel, text: Text, on_rows: Callable[[int], None]) -> list[RowDifference]:
    """The row of a token tells the next one, so the answer's rows begin at the prompt's last token."""
    tokens, first = text.tokens, len(text.prompt) - 1
    last = min(len(tokens) - 1, step.limits.n_ctx)
    width = min(TARGET_ROWS, target.capabilities.max_rows)
    found: list[RowDifference] = []
    read(target, _SEQUENCE, tokens[:first])
    read_step(step, tokens[:first])
    try:
        for start in range(first, last, width):
            stop = min(start + width, last)
            alone = [_one_row(target, tokens, i) for i in range(start, stop)]
            if target.rewind(_SEQUENCE, start) < start:  # a sliding window kept less
                read(target, _SEQUENCE, tokens[target.length(_SEQUENCE) : start])
            found += _compare_rows(target, step, tokens[start : stop + 1], start, alone)
            on_rows(stop - start)
    finally:
        target.release(_SEQUENCE)
    return found


def _one_row(target: Target, tokens: IntArray, at: int) -> int:
    """The likeliest token behind tokens[at], which stays in the cache."""
    (rows,) = target.verify([VerifyRequest(_SEQUENCE, tokens[at : at + 1], EMPTY, False)], 1)
    best = int(rows.logits(0).argmax())
    target.commit(_SEQUENCE, Commit(EMPTY.tokens, tokens[at + 1 : at + 2]))
    return best


def _compare_rows(
    target: Target, step: StepModel, tokens: IntArray, start: int, alone: list[int]
) -> list[RowDifference]:
    """Of all tokens but the last, which ends the commit."""
    n = len(tokens) - 1
    tree = chain(tokens[1:n], np.ones(n - 1, dtype=np.float32))
    (rows,) = target.verify([VerifyRequest(_SEQUENCE, tokens[:1], tree, False)], n)
    found = [difference(rows.logits(i), step.run(tokens[i : i + 1], start + i), best) for i, best in enumerate(alone)]
    target.commit(_SEQUENCE, Commit(np.arange(n - 1, dtype=np.int32), tokens[1:]))
    return found


def read_step(step: StepModel, tokens: IntArray) -> None:
    """From cell 0 on, in chunks."""
    chunk = step.limits.max_chunk
    for start in range(0, len(tokens), chunk):
        step.read(tokens[start : start + chunk], start)


def measure_steps(
    target: Target, step: StepModel, text: Text, clock: Callable[[], float], n: int = N_TIMED
) -> StepSeconds:
    """One token at a time, in turn, so that both meet the same machine. The first pair is not counted.

    Raises ValueError for a text that is too short for that.
    """
    tokens, first = text.tokens, len(text.prompt) - 1
    n = min(n, len(tokens) - first - 2)
    if n < 1:
        raise ValueError(f"an answer of {len(text.answer)} tokens")
    read(target, _SEQUENCE, tokens[:first])
    read_step(step, tokens[:first])
    of_step: list[float] = []
    of_target: list[float] = []
    try:
        for start in range(first, first + n + 1):
            row = tokens[start : start + 1]
            begun = clock()
            step.run(row, start)
            between = clock()
            target.verify([VerifyRequest(_SEQUENCE, row, EMPTY, False)], 1)
            ended = clock()
            target.commit(_SEQUENCE, Commit(EMPTY.tokens, tokens[start + 1 : start + 2]))
            of_step.append(between - begun)
            of_target.append(ended - between)
    finally:
        target.release(_SEQUENCE)
    return StepSeconds(statistics.median(of_step[1:]), statistics.median(of_target[1:]))
