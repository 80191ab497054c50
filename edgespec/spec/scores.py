"""Log probabilities of an answer's tokens, from the rows that decided them. Knows no law, no drafter and no text.

They are natural logarithms under the plain softmax of a row: at temperature 1, before bias, bans, penalties, grammar
and truncation. A score is a function of its row's bits alone, so where rows are equal, scores are.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from edgespec.errors import EngineFailure
from edgespec.events import TokenScore
from edgespec.spec.ports import Commit, FloatArray, Rows

IdArray = npt.NDArray[np.intp]


class Scorer:
    """The scores of one answer: `scores[i]` is that of its token i. n_top: alternatives beside each, 0 for none."""

    __slots__ = ("n_top", "scores")

    def __init__(self, n_top: int) -> None:
        self.n_top = n_top
        self.scores: list[TokenScore] = []

    def add(self, commit: Commit, rows: Rows) -> None:
        """Score what a walk emitted, before the rows die: every token by its parent's row, as plain decoding would.

        Raises EngineFailure if the logits of one of them have no finite maximum; none is scored then.
        """
        deciding = [0, *(commit.path + 1).tolist()]
        pairs = zip(deciding, commit.tokens.tolist(), strict=True)
        self.scores += [score(rows.logits(row), token, self.n_top) for row, token in pairs]


def score(row: FloatArray, token: int, n_top: int) -> TokenScore:
    """Of `token` under float32[n_vocab] logits, with the `n_top` likeliest tokens; fewer where fewer are possible.

    Raises EngineFailure if the logits have no finite maximum.
    """
    top = float(row.max())
    if not math.isfinite(top):
        remedy = "check that the model file is intact"
        raise EngineFailure("log probabilities", f"the maximum of the logits is {top}", remedy)
    distances = row.astype(np.float64)
    distances -= top
    log_total = math.log(float(np.exp(distances).sum()))
    likeliest = leaders(row, n_top)
    logprobs = tuple((distances[likeliest] - log_total).tolist())
    return TokenScore(token, float(distances[token]) - log_total, tuple(likeliest.tolist()), logprobs)


def leaders(row: FloatArray, n: int) -> IdArray:
    """The ids of the n largest logits, largest first, the lower id first among equals; -inf is never among them."""
    if n == 0:
        return np.empty(0, np.intp)
    able = row > -np.inf
    # Each group's maximum is a logit of the row, so at least n logits reach the n-th largest of them, and few more do:
    # on 262,144 logits ten times as fast as a partition of them all.
    n_groups = 8 * n
    if n_groups <= len(row):
        maxima = row[: len(row) // n_groups * n_groups].reshape(-1, n_groups).max(axis=0)
        able &= row >= np.partition(maxima, n_groups - n)[n_groups - n]
    ids = np.flatnonzero(able)
    return ids[np.argsort(-row[ids], kind="stable")[:n]]
