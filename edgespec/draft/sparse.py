"""A draft's few ranked tokens put through the target's own sampling settings, and the children drawn from them.

The chain of `spec.law` (bias, bans, penalties along the path, temperature, top-k, top-p, min-p) is applied to the k
tokens as if the vocabulary held no others: the result is what `Law` gives for a row that is -inf everywhere else. Knows
no cache, no tree and no network.

COUPLED: the target draws argmax(scaled logit + its noise), so the draft ranks tokens by the same score, noise keyed by
target id and absolute position (research: Daliri, Musco and Suresh, arXiv 2408.07978). POINT: by scaled logit. SAMPLED:
one token from the renormalised k, with that very law; REPEATED is the same, since there is one.

Claims say how likely a child is the target's own token, and are for planning only:
- POINT: the draft's probability; at temperature 0 its probability at temperature 1, which says how clear the lead is.
- COUPLED: the target's scores are the draft's with an error, so a child is right if no rival overtakes it: softmax of
  the scores over a scale. The draft's own probability knows nothing of the noise: measured by simulation, it predicts
  acceptance worse (log-loss 0.44 against 0.34 at temperature 1) and ranks the children in another order.
- SAMPLED: the leader's probability at temperature 1. It is known before the draw, so that stopping on it is causal.
Probabilities are under the draft's full log-sum-exp, so what lies outside the k is not promised to the k.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgespec.spec.law import Law, Sparse
from edgespec.spec.ports import FloatArray, IntArray
from edgespec.spec.survivors import survivors
from edgespec.spec.tree import DraftMode

Float64Array = npt.NDArray[np.float64]

# Given float64[m] summing to 1, an index drawn with those probabilities.
Draw = Callable[[Float64Array], int]

# Errors of a draft's scaled logits, as the scale of a softmax over scores: with 0.5 the mean claim met the acceptance
# of simulated drafts within 0.03 for temperatures of 0.5 to 1; with 1 it fell 0.06 to 0.18 short.
_ERROR_SCALE = 0.5


@dataclass(frozen=True, slots=True)
class Children:
    """Guesses for the token after one text, best first, with their claims; law: what a SAMPLED one was drawn from."""

    tokens: list[int]
    claims: list[float]
    law: Sparse | None = None


_NONE = Children([], [])


class SparseLaw:
    """The law of one request over the tokens that a draft ranks. `draw` is used by the modes that draw alone."""

    def __init__(self, law: Law, mode: DraftMode, draw: Draw) -> None:
        settings = law.settings
        # Without a temperature there is no noise to share.
        self.mode = DraftMode.POINT if mode is DraftMode.COUPLED and settings.temperature == 0.0 else mode
        self._law = law
        self._draw = draw
        self._settings = settings
        self._biased = np.array([token for token, _ in settings.logit_bias], dtype=np.int32)
        self._bias = np.array([bias for _, bias in settings.logit_bias], dtype=np.float32)
        self._banned = np.array(settings.banned, dtype=np.int32)
        neutral = (1.0, 0.0, 0.0)
        strengths = (settings.repeat_penalty, settings.frequency_penalty, settings.presence_penalty)
        self._penalises = strengths != neutral and settings.penalty_last_n > 0

    def children(
        self, ids: IntArray, logits: FloatArray, log_sum: float, history: Seq[int], n: int, floor: float
    ) -> Children:
        """At most n children with a claim of at least `floor`, of the text `history`, from one row of a `Ranked`.

        None are left where every ranked token is banned.
        """
        order = ids.argsort()
        ids, logits = ids[order], logits[order]
        row = self._adjusted(ids, logits, history)
        top = float(row.max())
        if not math.isfinite(top):
            return _NONE
        kept, scaled = self._survivors(row, top)
        # Where truncation bites among the k, it cuts what lies outside of them as well.
        bites = len(kept) < np.count_nonzero(row > -np.inf)
        lead, mass = _shares(row, logits, log_sum, top)
        if self.mode.is_drawn:
            return self._drawn(ids[kept], scaled, lead) if lead >= floor else _NONE
        scores = scaled
        if self.mode is DraftMode.COUPLED:
            scores = scaled + self._law.noise(len(history), ids[kept])
        best = np.argsort(-scores, kind="stable")[:n]
        claims = self._claims(scores, 1.0 if bites else mass)[best].tolist()
        n_likely = sum(1 for claim in claims if claim >= floor)  # they descend
        return Children(ids[kept][best[:n_likely]].tolist(), claims[:n_likely])

    def _claims(self, scores: Float64Array, mass: float) -> Float64Array:
        weights = np.exp((scores - scores.max()) / (_ERROR_SCALE if self.mode is DraftMode.COUPLED else 1.0))
        claims: Float64Array = weights * (mass / weights.sum())
        return claims

    def _drawn(self, ids: IntArray, scaled: Float64Array, lead: float) -> Children:
        weights = np.exp(scaled)
        law = Sparse(ids, weights / weights.sum())
        return Children([int(ids[self._draw(law.p)])], [lead], law)

    def _survivors(self, row: FloatArray, top: float) -> tuple[npt.NDArray[np.intp], Float64Array]:
        s = self._settings
        if s.temperature > 0.0:
            return survivors(row, top, s.temperature, s.top_k, s.top_p, s.min_p)
        if self.mode.is_drawn:  # the greedy law is one-hot
            return np.array([row.argmax()]), np.zeros(1)
        kept = np.flatnonzero(row > -np.inf)
        return kept, row[kept].astype(np.float64)

    def _adjusted(self, ids: IntArray, logits: FloatArray, history: Seq[int]) -> FloatArray:
        """As `Law` does it, in the same order and precision: an equal draft must give equal scores."""
        row: FloatArray = logits.copy()
        if len(self._biased):
            places, held = _places(ids, self._biased)
            row[places] += self._bias[held]
        if len(self._banned):
            row[_places(ids, self._banned)[0]] = -np.inf
        recent = history[-self._settings.penalty_last_n :] if self._penalises else ()
        if len(recent):
            tokens, counts = np.unique(np.array(recent, dtype=np.int32), return_counts=True)
            places, held = _places(ids, tokens)
            s = self._settings
            values = row[places].astype(np.float64)
            values = np.where(values > 0.0, values / s.repeat_penalty, values * s.repeat_penalty)
            row[places] = values - counts[held] * s.frequency_penalty - s.presence_penalty
        return row


def _places(ids: IntArray, wanted: IntArray) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Where in the ascending `ids` those of `wanted` stand that occur in it, and which of `wanted` they are."""
    places = np.minimum(ids.searchsorted(wanted), len(ids) - 1)
    held = np.flatnonzero(ids[places] == wanted)
    return places[held], held


def _shares(row: FloatArray, logits: FloatArray, log_sum: float, top: float) -> tuple[float, float]:
    """(probability of the leader, of all the k) at temperature 1, after what bias and penalties did to the k."""
    rest = 1.0 - float(np.exp(logits.astype(np.float64) - log_sum).sum())
    log_rest = log_sum + math.log(rest) if rest > 0.0 else -math.inf
    high = max(log_rest, top)  # keeps every exponent at or below 0, and the largest at 0
    inside = float(np.exp(row.astype(np.float64) - high).sum())
    total = inside + math.exp(log_rest - high)
    return math.exp(top - high) / total, inside / total
