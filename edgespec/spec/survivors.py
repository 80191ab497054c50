"""Which tokens of one row can be drawn, found without sorting the vocabulary. Knows no settings object and no history.

Everywhere, `row` is float32[n_vocab] (-inf allowed), `top` its finite maximum, and the scaled logit of a token is
(logit - top) / temperature in float64, so the leader has weight exp(0) = 1. Ranks are by descending logit, lower token
id first among equals. Each short cut proves its answer from bounds and gives way to the plain sort where it cannot.
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

# Up to this many candidates a plain sort is as cheap (some 15 us) as any way round it.
_FEW = 1024
# Sums of the same weights in another order may differ by this factor (n_vocab * 2**-53, with room to spare).
_ROUNDING = 1e-9
# `race` gives noise to tokens this near the leader (in nats) before it knows which others can still win.
_NEAR = 4.0


def survivors(
    row: FloatArray, top: float, temperature: float, top_k: int, top_p: float, min_p: float
) -> tuple[IdArray, Float64Array]:
    """(ids ascending, their scaled logits) of the tokens that top-k, then top-p, then min-p leave, never none."""
    if top_k == 0 and top_p >= 1.0:
        ids = np.flatnonzero(row > _floor(top, temperature, min_p))
        scaled = _scaled(row[ids], top, temperature)
        if min_p > 0.0:
            kept = np.exp(scaled) >= min_p
            ids, scaled = ids[kept], scaled[kept]
        return ids, scaled
    if top_k or len(row) <= _FEW:
        ids = _ranked(row, _leaders(row, top, top_k) if top_k else np.flatnonzero(row > -np.inf))
        ids = ids[: top_k or None]
        ids = ids[: _cut(_weights(row[ids], top, temperature), top_p, min_p)]
    else:
        ids = _nucleus(row, top, temperature, top_p, min_p)
    ids.sort()
    return ids, _scaled(row[ids], top, temperature)


def race(row: FloatArray, top: float, temperature: float, key: int) -> int:
    """The token with the largest scaled logit + Gumbel noise over the whole vocabulary.

    Noise is bounded, so a token too far below the best so far cannot win, and of the others only those few whose hash
    promises noise enough are looked at closely.
    """
    near = np.flatnonzero(row > top - _NEAR * temperature)
    if not len(near):  # top - 4 * temperature rounded back to top
        near = np.flatnonzero(row == top)
    scores = _scaled(row[near], top, temperature) + noise.gumbel(key, near)
    winner = scores.argmax()
    best = float(scores[winner])
    far = np.flatnonzero(row > _below(top - (noise.GUMBEL_MAX - best) * temperature))
    if len(far) <= len(near):
        return int(near[winner])
    # Whoever is not near lies at least _NEAR below the leader and needs at least this much noise.
    hashes = noise.hash64(key, far)
    lucky = hashes >= noise.hash_floor(best + _NEAR - 1e-3)
    ids = np.union1d(near, far[lucky])
    ids = ids.astype(np.intp)
    scores = _scaled(row[ids], top, temperature) + noise.gumbel(key, ids)
    return int(ids[scores.argmax()])
