"""The target's sampling law: from one row of logits and the tokens before it to probabilities and to the next token.

The chain is, in this order: logit bias, banned tokens, penalties, temperature, top-k, top-p, min-p; each step works on
what the one before it left, and top-p on the renormalised law. Equal logits rank by the lower token id. Penalties count
the tokens of the last `penalty_last_n` positions of prompt and output together, accepted draft tokens included. A mask
bans tokens too, other ones after every text.

Knows nothing of trees, models or text: a law is a function of (settings, mask, logits, history) and of nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgespec.errors import BadInput, EngineFailure
from edgespec.spec import noise
from edgespec.spec.allowed import AllowedTokens, Mask
from edgespec.spec.survivors import Float64Array, FloatArray, IdArray, race, survivors

_RANGES: tuple[tuple[str, float, float], ...] = (
    ("temperature", 0.0, 100.0),
    ("top_k", 0, 2**31 - 1),
    ("top_p", 0.0, 1.0),
    ("min_p", 0.0, 1.0),
    ("repeat_penalty", 0.01, 100.0),
    ("frequency_penalty", -100.0, 100.0),
    ("presence_penalty", -100.0, 100.0),
    ("penalty_last_n", 0, 2**31 - 1),
    ("seed", 0, 2**64 - 1),
)
# Below it, a difference of two float32 logits divided by the temperature could leave float64's range.
_COLDEST = 1e-6
# Of at most so many allowed tokens the whole chain is cheaper than one pass over the vocabulary.
_FEW_ALLOWED = 1024


@dataclass(frozen=True, slots=True)
class SamplingSettings:
    """How the next token is drawn; raises BadInput for a value out of range.

    temperature 0 is greedy: the largest logit after bias, bans and penalties. top_k 0, top_p 1 and min_p 0 switch those
    steps off, as do the neutral penalties (repeat 1, others 0) and penalty_last_n 0. repeat_penalty divides positive
    logits and multiplies negative ones; frequency_penalty is subtracted once per occurrence, presence_penalty once per
    token. logit_bias: (token id, value added to its logit) pairs. banned: token ids that are never drawn.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_last_n: int = 64
    seed: int = 0
    logit_bias: tuple[tuple[int, float], ...] = ()
    banned: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if not low <= value <= high:  # NaN is out of every range
                raise _out_of_range(name, value, f"between {low} and {high}")
        if 0.0 < self.temperature < _COLDEST:
            raise _out_of_range("temperature", self.temperature, f"0 (greedy) or at least {_COLDEST}")
        for token, bias in self.logit_bias:
            if not -1000.0 <= bias <= 1000.0:
                raise _out_of_range(f"logit_bias of token {token}", bias, "between -1000 and 1000")
        biased = [token for token, _ in self.logit_bias]
        if len(set(biased)) < len(biased):
            raise BadInput(f"logit_bias {self.logit_bias!r}", "it names a token twice", "give each token once")
        lowest = min((*biased, *self.banned), default=0)
        if lowest < 0:
            raise _out_of_range("a token id in logit_bias or banned", lowest, "0 or more")


@dataclass(frozen=True, slots=True)
class Sparse:
    """A law over the tokens that can be drawn. ids: int32[m], ascending. p: float64[m], summing to 1."""

    ids: npt.NDArray[np.int32]
    p: npt.NDArray[np.float64]


class Law:
    """ports.TokenLaw for one request's settings. Logits are float32[n_vocab] and are never written to.

    mask: what may come after a history; all else is banned there. All methods raise EngineFailure if the logits have no
    finite maximum (NaN, +inf, or nothing left after the bans), BadInput if the settings name a token outside the
    vocabulary, and what the mask raises.
    """

    __slots__ = (
        "_banned", "_bias", "_biased", "_highest_id", "_is_bare", "_mask", "_penalises", "_truncates", "settings",
    )  # fmt: skip

    def __init__(self, settings: SamplingSettings, mask: Mask | None = None) -> None:
        self.settings = settings
        self._mask = mask
        self._biased = np.array([token for token, _ in settings.logit_bias], dtype=np.intp)
        self._bias = np.array([bias for _, bias in settings.logit_bias], dtype=np.float32)
        self._banned = np.array(settings.banned, dtype=np.intp)
        self._highest_id = max((*self._biased.tolist(), *settings.banned), default=-1)
        neutral = (1.0, 0.0, 0.0)
        strengths = (settings.repeat_penalty, settings.frequency_penalty, settings.presence_penalty)
        self._penalises = strengths != neutral and settings.penalty_last_n > 0
        self._truncates = settings.top_k > 0 or settings.top_p < 1.0 or settings.min_p > 0.0
        unchanged = mask is None and not self._penalises and self._highest_id < 0
        self._is_bare = unchanged and settings.temperature == 0.0

    def choose(self, logits: FloatArray, history: Seq[int]) -> int:
        """The token after `history`: the largest logit, or at a temperature the largest log p + Gumbel noise.

        The noise is keyed by (seed, len(history), token), so the choice is reproducible and drawn exactly from
        `probabilities(logits, history)` (the Gumbel-max trick).
        """
        if self._is_bare:  # most of all answers, and what is not run costs nothing
            leader = int(logits.argmax())
            _finite(float(logits[leader]), len(history))
            return leader
        row = self._adjusted(logits, history)
        if self.settings.temperature == 0.0:
            return self._leader(row, history)
        row, few = self._allowed(row, history)
        top = _finite(_maximum(row), len(history))
        if few is None and not self._truncates:
            return race(row, top, self.settings.temperature, noise.key(self.settings.seed, len(history)))
        ids, scaled = self._survivors(row, top, few)
        if len(ids) == 1:
            return int(ids[0])
        return int(ids[(scaled + self.noise(len(history), ids)).argmax()])

    def probabilities(self, logits: FloatArray, history: Seq[int]) -> Sparse:
        """The law of the token after `history`, after the whole chain; one-hot at temperature 0."""
        if self.settings.temperature == 0.0:
            return Sparse(np.array([self.choose(logits, history)], dtype=np.int32), np.ones(1))
        row, few = self._allowed(self._adjusted(logits, history), history)
        ids, scaled = self._survivors(row, _finite(_maximum(row), len(history)), few)
        weights = np.exp(scaled)
        return Sparse(ids.astype(np.int32), weights / weights.sum())

    def noise(self, position: int, tokens: noise.IntTokens) -> npt.NDArray[np.float64]:
        """float64[n]: the Gumbel noise that `choose` adds at this position (= len(history)) to these tokens.

        A drafter that draws with it too (mode COUPLED) is accepted more often than one with noise of its own.
        """
        return noise.gumbel(noise.key(self.settings.seed, position), tokens)

    def _survivors(self, row: FloatArray, top: float, few: IdArray | None) -> tuple[IdArray, Float64Array]:
        """Of the tokens `few` where the row is theirs, else of the vocabulary."""
        s = self.settings
        ids, scaled = survivors(row, top, s.temperature, s.top_k, s.top_p, s.min_p)
        return ids if few is None else few[ids], scaled

    def _leader(self, row: FloatArray, history: Seq[int]) -> int:
        leader = int(row.argmax())
        allowed = None if self._mask is None else self._mask(history)
        if allowed is None or leader in allowed:  # mostly it is, and the row is not copied
            _finite(float(row[leader]), len(history))
            return leader
        row, few = _restricted(row, allowed)
        _finite(_maximum(row), len(history))
        place = int(row.argmax())
        return place if few is None else int(few[place])

    def _allowed(self, row: FloatArray, history: Seq[int]) -> tuple[FloatArray, IdArray | None]:
        return (row, None) if self._mask is None else _restricted(row, self._mask(history))

    def _adjusted(self, logits: FloatArray, history: Seq[int]) -> FloatArray:
        """float32[n_vocab] after bias, bans and penalties; `logits` itself where nothing changes."""
        if self._highest_id >= len(logits):
            raise BadInput(
                f"token {self._highest_id} in logit_bias or banned",
                f"the vocabulary ends at {len(logits) - 1}",
                "name only tokens of this model",
            )
        recent = history[-self.settings.penalty_last_n :] if self._penalises else ()
        if self._highest_id < 0 and not recent:
            return logits
        row: FloatArray = logits.copy()
        row[self._biased] += self._bias
        row[self._banned] = -np.inf
        if recent:
            self._penalise(row, recent)
        return row

    def _penalise(self, row: FloatArray, recent: Seq[int]) -> None:
        s = self.settings
        ids, counts = np.unique(np.array(recent, dtype=np.intp), return_counts=True)
        values = row[ids].astype(np.float64)
        values = np.where(values > 0.0, values / s.repeat_penalty, values * s.repeat_penalty)
        row[ids] = values - counts * s.frequency_penalty - s.presence_penalty


def _restricted(row: FloatArray, allowed: AllowedTokens) -> tuple[FloatArray, IdArray | None]:
    """(the logits of the few allowed tokens, these tokens), or (the whole row, -inf elsewhere; None) for many."""
    if len(allowed) > _FEW_ALLOWED:
        return np.where(allowed.flags(len(row)), row, np.float32(-np.inf)), None
    few = allowed.ids()
    return row[few], few


def _maximum(row: FloatArray) -> float:
    """-inf where nothing is left."""
    return float(row.max(initial=-np.inf))


def _finite(top: float, position: int) -> float:
    if math.isfinite(top):
        return top
    raise EngineFailure(
        f"the logits at position {position}",
        f"their maximum is {top}, so no token can be chosen",
        "check that the model file is intact and that not every allowed token is banned",
    )


def _out_of_range(name: str, value: float, allowed: str) -> BadInput:
    return BadInput(f"{name} = {value}", f"it must be {allowed}", "give a value in that range")
