"""Token recycling: drafts from what the target itself ranked highest after each token, the last time it was there.

Contract: every verified row whose token is known, of accepted and of rejected nodes, leaves its `k` likeliest tokens
in a table, one line per token (Luo et al., 2024); from the last committed token on the table is followed best-first.
The chance of an edge is a measured rate of its rank, of how far the row's first token led, and of the depth. Prompts
have no rows, so it starts empty, and it is shared by all sequences: a line costs 4 * k bytes, at most one for each
token of the vocabulary. Rows are read in `observe` only and nothing of them is kept but the ids. Calls for a sequence
that has not begun raise KeyError.

What a row costs beside its copy: finding its 8 likeliest of 49 thousand tokens takes some 20 us, of 262 thousand 110
us. A row is not read when its token's first guess has just come true again, and of rejected nodes only those teach
that have no line yet.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice

import numpy as np
import numpy.typing as npt

from edgespec.draft.grown import Child, Draft, grow
from edgespec.draft.rates import Rates
from edgespec.spec.ports import Commit, FloatArray, IntArray, Needs, Plan, Rows, SequenceId
from edgespec.spec.tree import EMPTY, DraftTree

_N_RANKED = 8

# Logits that the first token leads the second by, from which on a row counts as surer.
_LEADS = (0.5, 1.5, 3.0)
_N_LEADS = len(_LEADS) + 1

# Depths told apart: further down the guess before is a guess too, but it was reached.
_N_DEPTHS = 3

# Starting rates by lead for the first token, and what each further rank has of it.
_FIRST_RATES = (0.2, 0.3, 0.4, 0.55)
_RANK_FACTORS = (1.0, 0.4, 0.25, 0.17, 0.13, 0.1, 0.08, 0.07)

# Rejected nodes looked at per round: each may cost a row, and they teach less than what was said.
_MAX_REJECTED = 2

# Of rounds in a row in which nobody asks for its guesses, so many in one are read all the same.
_READ_EVERY = 8

# A row's likeliest tokens are sought among the highest of so many strided parts.
_STRIDES = 128


class Successors:
    """For each token the tokens that were ranked highest after it, and how clearly the first one led."""

    def __init__(self, n_ranked: int = _N_RANKED) -> None:
        self._n_ranked = n_ranked
        self._lines: dict[int, int] = {}
        self._ids = np.full((256, n_ranked), -1, np.int32)
        self._leads = bytearray()

    def __len__(self) -> int:
        return len(self._lines)

    def __contains__(self, token: int) -> bool:
        return token in self._lines

    def first(self, token: int) -> int:
        """The likeliest token after `token`, -1 if nothing is known."""
        line = self._lines.get(token)
        return -1 if line is None else int(self._ids[line, 0])

    def after(self, token: int) -> tuple[list[int], int]:
        """The likeliest tokens, best first, padded with -1, and the lead's number; none if nothing is known."""
        line = self._lines.get(token)
        if line is None:
            return [], 0
        ids: list[int] = self._ids[line].tolist()
        return ids, self._leads[line]

    def learn(self, token: int, row: FloatArray) -> None:
        """Replace what is known after `token` by float32[n_vocab] `row`; tokens at -inf are not taken."""
        ids = likeliest(row, self._n_ranked)
        ids = ids[np.isfinite(row[ids])]
        if not len(ids):
            return
        line = self._line(token)
        self._ids[line] = -1
        self._ids[line, : len(ids)] = ids
        lead = float(row[ids[0]] - row[ids[1]]) if len(ids) > 1 else float("inf")
        self._leads[line] = bisect_right(_LEADS, lead)

    def _line(self, token: int) -> int:
        line = self._lines.setdefault(token, len(self._lines))
        if line == len(self._leads):
            self._leads.append(0)
        if line == len(self._ids):
            self._ids = np.concatenate((self._ids, np.full_like(self._ids, -1)))
        return line


def likeliest(row: FloatArray, k: int) -> IntArray:
    """int32[min(k, n)]: the places of the k largest values, largest first, of equals the lower place first.

    Exact, without sorting or partitioning the row: the k-th largest of the parts' maxima is no larger than the k-th
    largest value, so few values reach it. NaN counts as the smallest value.
    """
    n_columns = len(row) // _STRIDES
    if n_columns < 4 * k:
        return _sorted(row, np.arange(len(row)))[:k]
    maxima = row[: n_columns * _STRIDES].reshape(_STRIDES, n_columns).max(axis=0)
    bound = np.partition(maxima, n_columns - k)[n_columns - k]
    found = np.flatnonzero(row >= bound)
    return _sorted(row, found if len(found) >= k else np.arange(len(row)))[:k]


def _sorted(row: FloatArray, places: npt.NDArray[np.intp]) -> IntArray:
    return places[np.argsort(-row[places], kind="stable")].astype(np.int32)


class RecycleDrafter:
    """Drafts from the table of successors, which all its sequences share. `n_read` counts the rows read."""

    name = "recycle"
    needs = Needs.TOKENS | Needs.ROWS

    def __init__(self) -> None:
        self.n_read = 0
        self.successors = Successors()
        self._last: dict[SequenceId, int] = {}
        self._drafts: dict[SequenceId, Draft] = {}
        self._n_unasked: dict[SequenceId, int] = {}
        self._rates = Rates(
            [rate * factor for _ in range(_N_DEPTHS) for rate in _FIRST_RATES for factor in _RANK_FACTORS]
        )

    def begin(self, sequence: SequenceId, prompt: IntArray) -> None:
        self._last[sequence] = int(prompt[-1]) if len(prompt) else -1
        self._drafts.pop(sequence, None)
        self._n_unasked[sequence] = 0

    def behind(self, sequence: SequenceId) -> int:
        return 0

    def propose(self, sequence: SequenceId, plan: Plan) -> DraftTree:
        """A tree from the last committed token on; empty where the target was never seen to go on from it."""
        if plan.max_nodes <= 0 or plan.max_leaves <= 0:
            return EMPTY
        self._n_unasked[sequence] = 0
        last = self._last[sequence]
        if last not in self.successors:
            return EMPTY
        draft = self._drafts[sequence] = grow(last, self._children, plan)
        return draft.tree()

    def anticipate(self, sequence: SequenceId, tree: DraftTree) -> None:
        """Nothing to prepare: a proposal costs microseconds."""

    def observe(self, sequence: SequenceId, commit: Commit, rows: Rows, nodes: IntArray) -> None:
        """Score the guesses, also those that were cut from the tree, and read what the rows say: those of rounds in
        which it is not asked seldom, since reading takes as long as guessing.
        """
        emitted: list[int] = commit.tokens.tolist()
        path: list[int] = commit.path.tolist()
        draft = self._drafts.pop(sequence, None)
        if draft is not None:
            draft.learn(self._rates, emitted)
            self._read_rejected(draft, nodes.tolist(), set(path), rows)
        n_unasked = self._n_unasked[sequence]
        self._n_unasked[sequence] = n_unasked + 1
        if n_unasked % _READ_EVERY:
            self._last[sequence] = emitted[-1]
            return
        # What was said last: the rejected nodes' rows rank what would have followed had the text gone another way.
        token = self._last[sequence]
        for node, following in zip([-1, *path], emitted, strict=False):
            if token >= 0 and self.successors.first(token) != following:
                self._read(token, rows, node)
            token = following
        self._last[sequence] = emitted[-1]

    def end(self, sequence: SequenceId) -> None:
        self._last.pop(sequence, None)
        self._n_unasked.pop(sequence, None)
        self._drafts.pop(sequence, None)

    def _children(self, token: int, path: list[int]) -> list[Child[int]]:
        followers, lead = self.successors.after(token)
        base = (min(len(path), _N_DEPTHS - 1) * _N_LEADS + lead) * _N_RANKED
        rates = self._rates.values
        found = [(rates[base + rank], follower, base + rank, follower) for rank, follower in enumerate(followers)]
        return sorted((child for child in found if child[1] >= 0), key=lambda child: -child[0])

    def _read_rejected(self, draft: Draft, nodes: list[int], accepted: set[int], rows: Rows) -> None:
        """Own nodes come likeliest first; only those whose token has no line yet are worth a row."""
        rejected = (
            (token, node)
            for token, node in zip(draft.tokens, nodes, strict=False)
            if node >= 0 and node not in accepted and token not in self.successors
        )
        for token, node in islice(rejected, _MAX_REJECTED):
            self._read(token, rows, node)

    def _read(self, token: int, rows: Rows, node: int) -> None:
        self.successors.learn(token, rows.logits(node + 1))
        self.n_read += 1
