"""How near a step model's ranks come to its model's logits. Pure arithmetic on rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgespec.spec.ports import FloatArray
from edgespec.spec.step import Ranked


@dataclass(frozen=True, slots=True)
class Agreement:
    """top1: part of the positions whose likeliest token is the same. self_top1: the same of the model and itself in
    passes of one row and of many, which round otherwise; no step model can be expected to come much nearer. tv: total
    variation, half the summed difference of probabilities, where all tokens that the step model does not name count as
    one. max_logit_error: over named tokens.
    """

    n_positions: int
    top1: float
    self_top1: float
    mean_tv: float
    p95_tv: float
    max_logit_error: float


@dataclass(frozen=True, slots=True)
class RowDifference:
    """stable: the model's own likeliest token is the same in a pass of one row."""

    same_top: bool
    stable: bool
    tv: float
    logit_error: float


def difference(row: FloatArray, ranked: Ranked, alone: int) -> RowDifference:
    """row: float32[n_vocab], the model's own logits at the position of the one row of `ranked`. alone: the model's
    likeliest token there in a pass of one row.
    """
    ids, logits = ranked.ids[0], ranked.logits[0].astype(np.float64)
    own = row[ids].astype(np.float64)
    p = np.exp(own - log_sum(row))
    q = np.exp(logits - float(ranked.log_sums[0]))
    rest = abs(float(p.sum() - q.sum()))
    tv = (float(np.abs(p - q).sum()) + rest) / 2
    best = int(row.argmax())
    return RowDifference(best == int(ids[0]), best == alone, tv, float(np.abs(own - logits).max()))


def log_sum(row: FloatArray) -> float:
    """log of the sum of exponentials, in float64."""
    most = float(row.max())
    return most + float(np.log(np.exp(row.astype(np.float64) - most).sum()))


def summary(rows: list[RowDifference]) -> Agreement:
    """Raises ValueError where there are none."""
    if not rows:
        raise ValueError("no positions to compare at")
    tv = np.array([row.tv for row in rows])
    return Agreement(
        n_positions=len(rows),
        top1=float(np.mean([row.same_top for row in rows])),
        self_top1=float(np.mean([row.stable for row in rows])),
        mean_tv=float(tv.mean()),
        p95_tv=float(np.quantile(tv, 0.95)),
        max_logit_error=max(row.logit_error for row in rows),
    )
