"""A toy draft that is often right: the target's own logits with an error. Also for a process of its own."""

from __future__ import annotations

import numpy as np

from edgespec.backend.toy import ToyModel
from edgespec.spec.ports import FloatArray
from tests.draft.toy_step import LogitsOf, Text, ToyStep, hashed, toy_limits

N_VOCAB = 7
MODEL = ToyModel(N_VOCAB, seed=4)


def near(model: ToyModel, noise: float) -> LogitsOf:
    error = hashed(model.n_vocab, 11, spread=noise)

    def logits_of(text: Text) -> FloatArray:
        row: FloatArray = np.maximum(model.logits(text), np.float32(-9.0)) + error(text)
        return row

    return logits_of


def good(_: str = "") -> ToyStep:
    """Right most of the time on MODEL."""
    return ToyStep(near(MODEL, 0.2), toy_limits(N_VOCAB, 5))
