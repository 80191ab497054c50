"""The plain twin of the round loop: one token after the other, without trees, drafts, rounds or batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from edgespec.backend.toy import ToyModel, ToyTarget
from edgespec.errors import EngineFailure
from edgespec.events import Finish
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.ports import Capabilities, Commit, FloatArray, VerifyRequest
from edgespec.spec.tree import EMPTY


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as a caller makes it. widths: the class an exact one stays inside, () for a fast one."""

    prompt: tuple[int, ...]
    sampling: SamplingSettings
    max_tokens: int
    end_tokens: frozenset[int] = frozenset()
    widths: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Plain:
    """The output, and why it ended: None if the law found no token to choose."""

    output: tuple[int, ...]
    finish: Finish | None


def plain_fast(model: ToyModel, asked: Asked) -> Plain:
    """From the model's own function of the text: no target, no cache."""
    return _decode(asked, model.logits)


class PaddedReader:
    """Logits of a text that grows token by token, each read in a pass of one width."""

    def __init__(self, target: ToyTarget, prompt: Sequence[int], width: int) -> None:
        self._target = target
        self._width = width
        for token in prompt[:-1]:
            target.extend(0, np.array([token], np.int32))

    def logits(self, text: Sequence[int]) -> FloatArray:
        if self._target.length(0) < len(text) - 1:
            self._target.commit(0, Commit(np.empty(0, np.int32), np.array(text[-1:], np.int32)))
        request = VerifyRequest(0, np.array(text[-1:], np.int32), EMPTY, canonical=True)
        return self._target.verify([request], self._width)[0].logits(0)


def plain_exact(model: ToyModel, limits: Capabilities, asked: Asked) -> Plain:
    """One token per pass, padded to the narrowest width of the class, on a target whose logits depend on the width."""
    reader = PaddedReader(ToyTarget(model, limits, rounding=True), asked.prompt, min(asked.widths))
    return _decode(asked, reader.logits)


def _decode(asked: Asked, logits_after: Callable[[list[int]], FloatArray]) -> Plain:
    law = Law(asked.sampling)
    text = list(asked.prompt)
    while True:
        try:
            text.append(law.choose(logits_after(text), text))
        except EngineFailure:
            return Plain(tuple(text[len(asked.prompt) :]), None)
        output = tuple(text[len(asked.prompt) :])
        if output[-1] in asked.end_tokens:
            return Plain(output, Finish.STOP)
        if len(output) == asked.max_tokens:
            return Plain(output, Finish.LENGTH)
