"""Which layers, and which token ids, a smaller draft keeps. Pure: what a choice is worth is asked of the caller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgespec.errors import BadInput
from edgespec.spec.ports import IntArray

Layers = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Worth:
    """acceptance: probability that a drafted token is kept. cost: of drafting one, in target passes."""

    acceptance: float
    cost: float


@dataclass(frozen=True, slots=True)
class Chosen:
    """layers: block numbers, ascending. n_drafted: tokens per pass at which the goodput is best; 0: do not draft.
    goodput: tokens per target pass of that length.
    """

    layers: Layers
    n_drafted: int
    goodput: float


Score = Callable[[Layers], Worth]
Progress = Callable[[Chosen], None]


def select_layers(n_blocks: int, score: Score, max_drafted: int = 8, progress: Progress | None = None) -> Chosen:
    """Of all blocks, drops again and again the one without which the expected goodput is best, until none improves it.

    score: called for each candidate, O(n_blocks ** 2) times at most. progress: told every step, and may raise to end
    the search. Of equals the earlier block goes.
    """
    best = _valued(tuple(range(n_blocks)), score, max_drafted)
    while True:
        if progress is not None:
            progress(best)
        smaller = [_valued(rest, score, max_drafted) for rest in _without_one(best.layers)]
        found = max(smaller, key=lambda one: one.goodput, default=best)
        if found.goodput <= best.goodput:
            return best
        best = found


def best_length(worth: Worth, max_drafted: int) -> tuple[int, float]:
    """The chain length, 0 to `max_drafted`, with the best goodput, and that goodput.

    A chain of k tokens, each kept with probability a while all before it are, emits (1 - a ** (k + 1)) / (1 - a) tokens
    on average (Leviathan et al. 2023, eq. 1) and takes 1 + k * cost passes. Of equals the shorter one.
    """
    expected, best = 1.0, (0, 1.0)
    for k in range(1, max_drafted + 1):
        expected += worth.acceptance**k
        goodput = expected / (1 + k * worth.cost)
        if goodput > best[1]:
            best = (k, goodput)
    return best


def frequent_ids(counts: npt.NDArray[np.integer], n: int, always: Sequence[int] = ()) -> IntArray:
    """int32[n], ascending: the ids `always`, and of the others those with the largest counts, of equals the lower.

    counts: how often each id was seen, [n_vocab]. Raises BadInput when `n` is not between len(always) and n_vocab.
    """
    kept = np.unique(np.asarray(always, dtype=np.int64))
    if not max(1, len(kept)) <= n <= len(counts):
        why = f"the model has {len(counts)} tokens, of which {len(kept)} are always kept"
        raise BadInput(f"a vocabulary of {n} tokens", why, "choose a size in between")
    order = np.argsort(-counts.astype(np.int64), kind="stable")
    others = order[~np.isin(order, kept)][: n - len(kept)]
    return np.sort(np.concatenate([kept, others])).astype(np.int32)


def _valued(layers: Layers, score: Score, max_drafted: int) -> Chosen:
    return Chosen(layers, *best_length(score(layers), max_drafted))


def _without_one(layers: Layers) -> list[Layers]:
    return [layers[:i] + layers[i + 1 :] for i in range(len(layers))] if len(layers) > 1 else []
