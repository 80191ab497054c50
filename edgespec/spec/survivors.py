"""Which tokens of one row can be drawn, found without sorting the vocabulary. Knows no history and no penalties.

Everywhere `row` is float32[n_vocab] (-inf allowed), `top` its finite maximum, and the scaled logit of a token is
(logit - top) / temperature in float64, so that the leader has weight exp(0) = 1. Tokens rank by descending logit, the
lower id first among equals. A short cut is taken only where bounds prove that the plain sort gives the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from edgespec.spec import noise

FloatArray = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]
IdArray = npt.NDArray[np.intp]

# Sorting this many logits (some 10 us) is cheaper than finding out that fewer would do.
_FEW = 1024
# Sums over the same weights in another order stay within this factor (n_vocab * 2**-53, with much room).
_ROUNDING = 1e-9
# float32 arithmetic, its exponential included, errs by less than this (some 5 units in the last place) per factor.
_LIGHT = 6e-7
# `race` first scores the tokens this near the leader, in nats: the best of them rules most others out.
_NEAR = 4.0
# Tokens hashed at a time: the dozen passes over a block should find it in the cache.
_BLOCK = 16384


def survivors(
    row: FloatArray, top: float, temperature: float, top_k: int, top_p: float, min_p: float
) -> tuple[IdArray, Float64Array]:
    """What top-k, then top-p, then min-p leave (never nothing): (token ids ascending, their scaled logits)."""
    if top_k == 0 and top_p >= 1.0:
        ids = _above_min_p(row, top, temperature, min_p)
    elif top_k == 0 and len(row) > _FEW:
        ids = _nucleus(row, top, temperature, top_p, min_p)
    else:
        ids = _cut_exactly(row, _leaders(row, top_k or len(row)), top, temperature, top_p, min_p)
    return ids, _scaled(row[ids], top, temperature)


def race(row: FloatArray, top: float, temperature: float, key: int) -> int:
    """The token with the largest scaled logit + Gumbel noise in the whole vocabulary, the lowest id among equals.

    Noise has bounded support, so a token far enough below the best so far cannot win; of the rest, only the few whose
    hash promises enough noise are scored.
    """
    edge = _float32_below(top - _NEAR * temperature)
    near = np.flatnonzero(row > edge)
    scores = _scaled(row[near], top, temperature) + noise.gumbel(key, near)
    best, winner = float(scores.max()), int(near[scores.argmax()])
    gap = (top - float(edge)) / temperature
    for start in range(0, len(row), _BLOCK):
        block = row[start : start + _BLOCK]
        able = block > _float32_below(top - (noise.GUMBEL_MAX - best) * temperature)
        far = np.flatnonzero(able & (block <= edge)) + start
        far = far[noise.hash64(key, far) >= noise.hash_floor(best + gap - _ROUNDING)]
        if len(far):
            scores = _scaled(row[far], top, temperature) + noise.gumbel(key, far)
            best, winner = max((best, -winner), (float(scores.max()), -int(far[scores.argmax()])))
            winner = -winner
    return winner


def _scaled(logits: FloatArray, top: float, temperature: float) -> Float64Array:
    scaled = logits.astype(np.float64)
    scaled -= top
    scaled *= 1.0 / temperature
    return scaled


def _float32_below(value: float) -> np.float32:
    """A float32 just below `value`, -inf where float32 ends: `row > it` misses no logit >= value."""
    minus_infinity: np.float32 = np.float32(-np.inf)
    if value < -3e38:
        return minus_infinity
    below: np.float32 = np.nextafter(np.float32(value), minus_infinity)
    return below


def _above_min_p(row: FloatArray, top: float, temperature: float, min_p: float) -> IdArray:
    if min_p == 0.0:
        return np.flatnonzero(row > -np.inf)
    # The logarithm only has to be roughly right: the weights decide.
    ids = np.flatnonzero(row > _float32_below(top + (math.log(min_p) - _ROUNDING) * temperature))
    return ids[np.exp(_scaled(row[ids], top, temperature)) >= min_p]


def _leaders(row: FloatArray, k: int) -> FloatArray:
    """The k largest logits, descending; all finite ones if they are fewer."""
    edge = np.float32(-np.inf)
    n_groups = 8 * k
    if n_groups <= len(row):
        # Every group's maximum is a logit of the row, so at least k logits reach the k-th largest maximum; few more do.
        groups = row[: len(row) // n_groups * n_groups].reshape(-1, n_groups)
        edge = np.partition(groups.max(axis=0), n_groups - k)[n_groups - k]
    return _descending(row[(row >= edge) & (row > -np.inf)])[:k]


def _nucleus(row: FloatArray, top: float, temperature: float, top_p: float, min_p: float) -> IdArray:
    """What top-p and then min-p leave, ascending."""
    light = _light_weights(row, top, temperature)
    for total, error in _totals(light, row, top, temperature):
        least, most = total * (1.0 - error), total * (1.0 + error)
        for ids, edge in _heads(light, top_p, most):
            if not len(ids):
                continue
            head = row[ids]
            leaders = _descending(head)
            weights = np.exp(_scaled(leaders, top, temperature))
            n = _cut(weights, most, top_p, min_p)
            # In a head that holds enough, and whose lightest chosen token is not at its edge, no token is missed.
            if weights[n - 1] > edge and float(weights.sum()) > top_p * most:
                if n == _cut(weights, least, top_p, min_p):
                    return ids[_first(head, leaders, n)]
                break
    # The cut falls on a border to within rounding, as with exact ties: only the full sort can tell.
    return _cut_exactly(row, _leaders(row, len(row)), top, temperature, top_p, min_p)


def _light_weights(row: FloatArray, top: float, temperature: float) -> FloatArray:
    """float32 weights, each within _LIGHT of the exact one times (1 + its distance from the leader in nats)."""
    light: FloatArray = np.empty_like(row)
    with np.errstate(over="ignore"):  # what float32 cannot hold is as good as -inf
        np.subtract(row, np.float32(top), out=light)
        np.multiply(light, np.float32(1.0 / temperature), out=light)
    return np.exp(light, out=light)


def _totals(light: FloatArray, row: FloatArray, top: float, temperature: float) -> Iterator[tuple[float, float]]:
    """(weight of the whole vocabulary, relative error it may have): the cheap one, then the precise one."""
    # The mean distance from the leader, weighted by p, is at most the entropy, which log n bounds.
    yield float(light.sum()), _LIGHT * (1.0 + math.log(len(row)))
    yield float(np.exp(_scaled(row, top, temperature)).sum()), _ROUNDING


def _heads(light: FloatArray, top_p: float, total: float) -> Iterator[tuple[IdArray, float]]:
    """(ids ascending of ever more of the heaviest tokens, a weight above which none is missing)."""
    # All lighter than (1 - top_p) * total / n together cannot reach 1 - top_p, so one of these heads holds enough.
    n_spared = 256
    while n_spared < 16 * len(light):
        edge = (1.0 - top_p) * total / n_spared
        yield np.flatnonzero(light > np.float32(edge)), edge * 1.001
        n_spared *= 4


def _descending(logits: FloatArray) -> FloatArray:
    return np.sort(logits)[::-1]


def _cut_exactly(
    row: FloatArray, leaders: FloatArray, top: float, temperature: float, top_p: float, min_p: float
) -> IdArray:
    """What top-p and then min-p leave of the tokens with the descending logits `leaders`, ascending."""
    weights = np.exp(_scaled(leaders, top, temperature))
    return _first(row, leaders, _cut(weights, float(weights.cumsum()[-1]), top_p, min_p))


def _cut(weights: Float64Array, total: float, top_p: float, min_p: float) -> int:
    """How many of the descending `weights` stay: the fewest that hold top_p of `total`, of these the ones >= min_p."""
    n = len(weights)
    if top_p < 1.0:
        n = min(n, 1 + int(weights.cumsum().searchsorted(top_p * total)))
    return min(n, int(np.count_nonzero(weights >= min_p)))


def _first(row: FloatArray, leaders: FloatArray, n: int) -> IdArray:
    """The ids of the first n tokens in rank order, ascending; `leaders` holds at least their logits, descending."""
    last = leaders[n - 1]
    ids = np.flatnonzero(row >= last)
    if len(ids) == n:
        return ids
    tied = np.flatnonzero(row[ids] == last)
    return np.delete(ids, tied[n - len(ids) :])
