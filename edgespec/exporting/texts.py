"""A model's own greedy answers, several prompts in one pass, as the text that a step model is judged by."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

import numpy as np

from edgespec.spec.ports import Commit, FloatArray, IntArray, Target, VerifyRequest
from edgespec.spec.tree import EMPTY

# Answers that grow side by side. A pass over eight rows takes about twice as long as one over a single row.
GROUP = 8


@dataclass(frozen=True, slots=True)
class Text:
    """prompt: int32, at least one token. answer: int32, what the model says to it, without an end token."""

    prompt: IntArray
    answer: IntArray

    @property
    def tokens(self) -> IntArray:
        return np.concatenate([self.prompt, self.answer])


@dataclass(slots=True)
class _Growing:
    sequence: int
    prompt: IntArray
    pending: IntArray
    answer: list[int] = field(default_factory=list)


def greedy_texts(
    target: Target,
    prompts: Seq[IntArray],
    n_each: int,
    end_tokens: frozenset[int],
    on_token: Callable[[int], None] = lambda _: None,
    on_row: Callable[[FloatArray], None] = lambda _: None,
) -> list[Text]:
    """An answer of at most `n_each` tokens to each prompt, fewer where the context or an end token ends it; prompts
    without any are left out. on_token: told how many tokens came. on_row: shown each
    row of logits, which it must not keep. The target's sequences 0, 1, ... must be free.
    """
    texts: list[Text] = []
    room = target.capabilities.n_ctx // GROUP
    for first in range(0, len(prompts), GROUP):
        group = [
            _Growing(sequence, prompt, prompt[-1:])
            for sequence, prompt in enumerate(prompts[first : first + GROUP])
            if 0 < len(prompt) < room
        ]
        try:
            _grow(target, group, n_each, room, end_tokens, on_token, on_row)
        finally:
            for one in group:
                target.release(one.sequence)
        texts += [Text(one.prompt, np.array(one.answer, dtype=np.int32)) for one in group if one.answer]
    return texts


def _grow(
    target: Target,
    group: list[_Growing],
    n_each: int,
    room: int,
    end_tokens: frozenset[int],
    on_token: Callable[[int], None],
    on_row: Callable[[FloatArray], None],
) -> None:
    for one in group:
        read(target, one.sequence, one.prompt[:-1])
    alive = group
    while alive:
        requests = [VerifyRequest(one.sequence, one.pending, EMPTY, False) for one in alive]
        rows = target.verify(requests, len(requests))
        tokens = [int(row.logits(0).argmax()) for row in rows]
        for row in rows:
            on_row(row.logits(0))
        for one, token in zip(alive, tokens, strict=True):
            one.pending = target.commit(one.sequence, Commit(EMPTY.tokens, np.array([token], dtype=np.int32)))
            if token not in end_tokens:
                one.answer.append(token)
        on_token(len(alive))
        alive = [
            one
            for one, token in zip(alive, tokens, strict=True)
            if token not in end_tokens and len(one.answer) < min(n_each, room - len(one.prompt))
        ]


def read(target: Target, sequence: int, tokens: IntArray) -> None:
    """Into the cache, in chunks."""
    chunk = target.capabilities.max_chunk
    for start in range(0, len(tokens), chunk):
        target.extend(sequence, tokens[start : start + chunk])


def shortened(texts: Seq[Text], n_positions: int) -> list[Text]:
    """So many tokens of answers in all, about as many of each text."""
    left, found = n_positions, []
    by_length = sorted(texts, key=lambda text: len(text.answer))
    for i, text in enumerate(by_length):
        share = -(-left // (len(by_length) - i))
        kept = Text(text.prompt, text.answer[:share])
        left -= len(kept.answer)
        if len(kept.answer):
            found.append(kept)
    return found
