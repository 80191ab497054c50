"""The plain twin of edgespec.spec.law: the whole chain written as it is defined, over the whole vocabulary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence as Seq

import numpy as np
import numpy.typing as npt

from edgespec.spec import noise
from edgespec.spec.law import SamplingSettings

FloatArray = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]


def adjusted(logits: FloatArray, settings: SamplingSettings, history: Seq[int]) -> list[float]:
    """Logits after bias, bans and penalties, each rounded to float32."""
    row = [float(x) for x in logits]
    for token, bias in settings.logit_bias:
        row[token] = float(np.float32(row[token]) + np.float32(bias))
    for token in settings.banned:
        row[token] = -np.inf
    window = list(history)[max(0, len(history) - settings.penalty_last_n) :]
    for token, count in Counter(window).items():
        x = row[token]
        x = x / settings.repeat_penalty if x > 0.0 else x * settings.repeat_penalty
        row[token] = float(np.float32(x - count * settings.frequency_penalty - settings.presence_penalty))
    return row


def chain(row: list[float], settings: SamplingSettings) -> tuple[list[int], Float64Array]:
    """(tokens that top-k, top-p and min-p leave, in rank order; their weights, 1 for the leader)."""
    ranked = sorted((token for token in range(len(row)) if row[token] > -np.inf), key=lambda t: (-row[t], t))
    if settings.top_k > 0:
        ranked = ranked[: settings.top_k]
    inverse = 1.0 / settings.temperature
    weights = np.exp(np.array([(row[token] - row[ranked[0]]) * inverse for token in ranked]))
    n = len(ranked)
    if settings.top_p < 1.0:
        sums = weights.cumsum().tolist()
        n = 1
        while sums[n - 1] < settings.top_p * sums[-1]:
            n += 1
    kept = [i for i in range(n) if weights[i] >= settings.min_p]
    return [ranked[i] for i in kept], weights[kept]


def reference_probabilities(logits: FloatArray, settings: SamplingSettings, history: Seq[int]) -> Float64Array:
    """float64[n_vocab]: the law of the token after `history`."""
    row = adjusted(logits, settings, history)
    p = np.zeros(len(row))
    if settings.temperature == 0.0:
        p[row.index(max(row))] = 1.0
        return p
    ids, weights = chain(row, settings)
    p[ids] = weights / weights.sum()
    return p


def reference_choice(logits: FloatArray, settings: SamplingSettings, history: Seq[int]) -> int:
    """The Gumbel-max draw, with noise for the whole vocabulary."""
    p = reference_probabilities(logits, settings, history)
    g = noise.gumbel(noise.key(settings.seed, len(history)), np.arange(len(p)))
    scores = np.full(len(p), -np.inf)
    scores[p > 0.0] = np.log(p[p > 0.0]) + g[p > 0.0]
    return int(scores.argmax())
