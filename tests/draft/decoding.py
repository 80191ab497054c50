"""One request decoded by real rounds over the toy target, with real rows. Passes are all that takes time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgespec.backend.toy import ToyModel, ToyTarget
from edgespec.events import RoundReport
from edgespec.spec.law import Law
from edgespec.spec.policy import Policy
from edgespec.spec.ports import Capabilities, Drafter
from edgespec.spec.round import Drafting, Loop
from edgespec.spec.sequence import SequenceState
from edgespec.spec.verify import PathVerifier
from tests.spec.plain_decoding import Asked, Plain


@dataclass(frozen=True)
class Decoded:
    plain: Plain
    reports: list[RoundReport]

    @property
    def tokens_per_pass(self) -> float:
        return len(self.plain.output) / len(self.reports)


def decode(
    model: ToyModel,
    limits: Capabilities,
    asked: Asked,
    drafters: tuple[Drafter, ...],
    policy: Policy,
    sequence: int = 0,
) -> Decoded:
    """Rounds until the request is over. An exact one meets a target whose logits depend on the width of a pass."""
    target = ToyTarget(model, limits, rounding=bool(asked.widths))
    for token in asked.prompt[:-1]:
        target.extend(sequence, np.array([token], np.int32))
    for drafter in drafters:
        drafter.begin(sequence, np.array(asked.prompt, np.int32))
    law = Law(asked.sampling)
    state = SequenceState.start(sequence, list(asked.prompt), law, asked.max_tokens, asked.end_tokens, asked.widths)
    loop = Loop(target, policy, PathVerifier(), clock=lambda: float(target.n_passes))
    reports: list[RoundReport] = []
    while state.finish is None and state.failure is None:
        reports += loop.run([Drafting.of(state, drafters)])
    for drafter in drafters:
        drafter.end(sequence)
    return Decoded(Plain(tuple(state.tokens[len(asked.prompt) :]), state.finish), reports)
