"""Ratios of speeds with their spread, from rows. Pure arithmetic; measures nothing.

A speed is tokens per second over all answers. A ratio compares two peers on the prompts and repeats that both answered;
its 95 % interval is that of the bootstrap over prompts, whose repeats stay together.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tools.peer import Answer
from tools.peer_rows import Row

SEED = 20250
N_RESAMPLES = 2000
# An answer whose last so many tokens repeat with one period talks in circles.
LOOP_TOKENS = 64
# From here on a prompt counts as long.
LONG_PROMPT = 900

Measure = Callable[[Answer], tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Spread:
    """A ratio with its 95 % interval; low and high are None with fewer than two prompts."""

    ratio: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class PeerFigures:
    """One peer in one view. The spreads are ratios of speeds: this peer to the baseline, `auto` to this peer.

    by_category: total speed against the baseline. same_answers: the part of them with the baseline's very tokens.
    """

    peer: str
    n_answers: int
    n_tokens: int
    decode_speed: float | None
    total_speed: float | None
    decode: Spread | None
    total: Spread | None
    auto_decode: Spread | None
    auto_total: Spread | None
    by_category: dict[str, float]
    same_answers: float | None

    @property
    def category_mean(self) -> float | None:
        return statistics.fmean(self.by_category.values()) if self.by_category else None


@dataclass(frozen=True, slots=True)
class View:
    """A choice of prompts, by digest."""

    name: str
    digests: frozenset[str]


def decode(answer: Answer) -> tuple[int, float]:
    return answer.n_decoded, answer.decode_seconds


def total(answer: Answer) -> tuple[int, float]:
    return answer.n_generated, answer.total_seconds


def is_loop(tokens: Sequence[int]) -> bool:
    """The last 64 tokens are at least two turns of one circle."""
    tail = list(tokens[-LOOP_TOKENS:])
    if len(tail) < LOOP_TOKENS:
        return False
    return any(tail[period:] == tail[:-period] for period in range(1, LOOP_TOKENS // 2 + 1))


def speed(answers: Iterable[Answer], measure: Measure) -> float | None:
    """Tokens per second; None when there is nothing to divide."""
    measured = [measure(answer) for answer in answers]
    seconds = sum(seconds for _, seconds in measured)
    return sum(n for n, _ in measured) / seconds if seconds > 0 else None


def spread(pairs: Sequence[tuple[str, Answer, Answer]], measure: Measure) -> Spread | None:
    """Speed of the first answers over that of the second; each pair comes with its prompt's digest."""
    by_prompt: dict[str, list[float]] = {}
    for digest, one, other in pairs:
        sums = by_prompt.setdefault(digest, [0.0] * 4)
        for place, value in enumerate((*measure(one), *measure(other))):
            sums[place] += value
    table = np.array([sums for sums in by_prompt.values() if min(sums) > 0], np.float64).reshape(-1, 4)
    if not len(table):
        return None
    low, high = _interval(table) if len(table) > 1 else (None, None)
    return Spread(float(_ratio(table.sum(axis=0))), low, high)


def _interval(table: NDArray[np.float64]) -> tuple[float, float]:
    chosen = np.random.default_rng(SEED).integers(0, len(table), (N_RESAMPLES, len(table)))
    low, high = np.percentile(_ratio(table[chosen].sum(axis=1)), [2.5, 97.5])
    return float(low), float(high)


def _ratio(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of [..., tokens, seconds, other tokens, other seconds]."""
    return np.asarray(sums[..., 0] / sums[..., 1] * sums[..., 3] / sums[..., 2])


def views(rows: Sequence[Row]) -> list[View]:
    """All prompts; those that no peer's answer loops on; the long and the short ones. Without empty views, and without
    those that are the same as all.
    """
    everything = frozenset(row.key.digest for row in rows)
    looping = frozenset(row.key.digest for row in rows if row.answer is not None and is_loop(row.answer.tokens))
    long = frozenset(row.key.digest for row in rows if row.n_prompt >= LONG_PROMPT)
    found = [
        View("prompts without looping answers", everything - looping),
        View(f"prompts of {LONG_PROMPT} tokens and more", long),
        View(f"prompts under {LONG_PROMPT} tokens", everything - long),
    ]
    return [View("all prompts", everything), *(one for one in found if one.digests and one.digests != everything)]


class Figures:
    """Of the rows of one view."""

    def __init__(self, rows: Iterable[Row], view: View, baseline: str, auto: str) -> None:
        self._baseline = baseline
        self._auto = auto
        self._answers: dict[str, dict[tuple[str, int], Answer]] = {}
        self._categories: dict[str, str] = {}
        for row in rows:
            if row.answer is not None and row.key.digest in view.digests:
                answers = self._answers.setdefault(row.key.peer, {})
                answers[row.key.digest, row.key.repeat] = row.answer
                self._categories[row.key.digest] = row.category

    def of(self, peer: str) -> PeerFigures:
        answers = list(self._answers.get(peer, {}).values())
        against, auto = self._pairs(peer, self._baseline), self._pairs(self._auto, peer)
        same = [one.tokens == other.tokens for _, one, other in against]
        return PeerFigures(
            peer,
            len(answers),
            sum(answer.n_generated for answer in answers),
            speed(answers, decode),
            speed(answers, total),
            spread(against, decode),
            spread(against, total),
            spread(auto, decode),
            spread(auto, total),
            self._by_category(against),
            sum(same) / len(same) if same else None,
        )

    def _pairs(self, peer: str, other: str) -> list[tuple[str, Answer, Answer]]:
        ours, theirs = self._answers.get(peer, {}), self._answers.get(other, {})
        return [(key[0], answer, theirs[key]) for key, answer in ours.items() if key in theirs]

    def _by_category(self, pairs: list[tuple[str, Answer, Answer]]) -> dict[str, float]:
        grouped: dict[str, list[tuple[str, Answer, Answer]]] = {}
        for pair in pairs:
            grouped.setdefault(self._categories[pair[0]], []).append(pair)
        found = {category: spread(group, total) for category, group in grouped.items()}
        return {category: one.ratio for category, one in sorted(found.items()) if one is not None}
