"""What lies in the cells of one draft network: texts in, ranked next tokens out, reading only what is missing.

Several drafters and requests may share one trunk: whoever comes next takes the longest part of its text that the cells
hold, be it on the chain that the cells begin with or on a branch hanging from it, and the rest is forgotten. Rolling
back is arithmetic. Results of the network are checked here, so nobody behind it meets a NaN or an unknown token. After
a call that failed nothing counts as known, so the next text is read anew, also by a network that was started again.
Knows no law, no tree and no clock. Used by one thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq

import numpy as np

from edgespec.errors import EngineFailure
from edgespec.spec.step import Ranked, StepLimits, StepModel

# float16 kernels sum a row less precisely than they compute its logits; more than this is not rounding.
_SUM_SLACK = 0.1


class Trunk:
    """The cells of `step`, which nobody else may write to."""

    def __init__(self, step: StepModel) -> None:
        self.name = step.name
        self.limits: StepLimits = step.limits
        self._step = step
        # The cells are a chain from the first on, then branches: (parent cell, token) of each later cell.
        self._chain: list[int] = []
        self._branches: list[tuple[int, int]] = []

    @property
    def n_cells(self) -> int:
        return len(self._chain) + len(self._branches)

    @property
    def room(self) -> int:
        """Cells that are free."""
        return self.limits.n_ctx - self.n_cells

    def behind(self, text: list[int]) -> int:
        """Tokens of `text` before its last one that are not in the cells; 0 for a text that does not fit at all."""
        if len(text) > self.limits.n_ctx:
            return 0
        shared, branch = self._held(text)
        return max(0, len(text) - 1 - shared - len(branch))

    def rank(self, text: list[int], go_on: Callable[[], bool], n_rows: int = 1) -> Ranked | None:
        """What follows the last `n_rows` beginnings of `text`, one row each, the last one of all of it; its last token
        then lies in cell len(text) - 1. At least one token, and at most `max_rows` rows.

        `go_on` is asked between two calls of the network; None if it said no, with what was read kept. Raises
        ValueError if the text does not fit, EngineFailure if the network fails or returns nonsense.
        """
        if not 1 <= len(text) <= self.limits.n_ctx:
            raise ValueError(f"a text of {len(text)} tokens, but the draft holds 1 to {self.limits.n_ctx}")
        if not 1 <= n_rows <= min(len(text), self.limits.max_rows):
            raise ValueError(f"{n_rows} rows of a text of {len(text)} tokens, at most {self.limits.max_rows} at once")
        self._settle(text, n_rows)
        # A rest that one run can take goes along with the last token: one call fewer.
        while (missing := len(text) - len(self._chain)) > self.limits.max_rows:
            start = len(self._chain)
            self._read(text[start : start + min(self.limits.max_chunk, missing - n_rows)])
            if not go_on():
                return None
        start = len(self._chain)
        ranked = self.extend(text[start:], range(start - 1, len(text) - 1))
        return Ranked(ranked.ids[-n_rows:], ranked.logits[-n_rows:], ranked.log_sums[-n_rows:])

    def extend(self, tokens: Seq[int], parents: Seq[int]) -> Ranked:
        """Put each token behind its parent cell, into the next free cells, and rank what follows it.

        At most `max_rows` tokens and `room` cells; without `branches` each parent is the cell before its own.
        """
        start = self.n_cells
        is_chain = list(parents) == list(range(start - 1, start - 1 + len(tokens)))
        chain, branches = self._take()
        ranked = self._step.run(np.array(tokens, np.int32), start, None if is_chain else np.array(parents, np.int32))
        check_ranked(ranked, len(tokens), self.limits)
        if is_chain and not branches:
            chain += tokens
        else:
            branches += zip(parents, tokens, strict=True)
        self._chain, self._branches = chain, branches
        return ranked

    def _read(self, tokens: list[int]) -> None:
        chain, _ = self._take()
        self._step.read(np.array(tokens, np.int32), len(chain))
        self._chain = chain + tokens

    def _settle(self, text: list[int], n_rows: int) -> None:
        """Make the cells hold a beginning of `text` and nothing else, but none of its last tokens, which are to run."""
        shared, branch = self._held(text, n_rows)
        chain, _ = self._take()
        del chain[shared:]
        if branch:
            self._step.keep(np.array(branch, np.int32), shared)
        self._chain = chain + text[shared : shared + len(branch)]

    def _held(self, text: list[int], n_rows: int = 1) -> tuple[int, list[int]]:
        """How many tokens of text[:-n_rows] the chain begins with, and the cells of the branch of what follows."""
        shared = min(n_shared(self._chain, text), len(text) - n_rows)
        cells: list[int] = []
        last = shared - 1
        for cell, (parent, token) in enumerate(self._branches, len(self._chain)):
            n = shared + len(cells)
            if n < len(text) - n_rows and (parent, token) == (last, text[n]):
                cells.append(cell)
                last = cell
        return shared, cells

    def _take(self) -> tuple[list[int], list[tuple[int, int]]]:
        """What is known, to be put back by a call that succeeds."""
        known = self._chain, self._branches
        self._chain, self._branches = [], []
        return known


def n_shared(one: list[int], two: list[int]) -> int:
    """How many tokens two texts begin with in common. Halves the doubt with slices: a text has thousands of tokens."""
    low, high = 0, min(len(one), len(two))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == two[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def check_ranked(ranked: Ranked, n_rows: int, limits: StepLimits) -> None:
    """Raise EngineFailure unless every promise of `Ranked` is kept."""
    shape = (n_rows, limits.n_ranked)
    ids, logits, sums = ranked.ids, ranked.logits, ranked.log_sums
    if ids.shape != shape or logits.shape != shape or sums.shape != (n_rows,):
        raise _nonsense(f"arrays of the shapes {ids.shape}, {logits.shape} and {sums.shape} for {n_rows} rows")
    if ids.dtype != np.int32 or logits.dtype != np.float32 or sums.dtype != np.float32:
        raise _nonsense(f"arrays of {ids.dtype}, {logits.dtype} and {sums.dtype}")
    if ids.min() < 0 or ids.max() >= limits.n_vocab:
        raise _nonsense(f"token ids from {ids.min()} to {ids.max()} of a vocabulary of {limits.n_vocab}")
    if (np.diff(np.sort(ids, axis=1), axis=1) == 0).any():
        raise _nonsense("a token ranked twice in one row")
    # NaN fails every comparison. -inf may stand at a row's end.
    if not (np.isfinite(sums).all() and np.isfinite(logits[:, 0]).all() and (logits[:, 1:] <= logits[:, :-1]).all()):
        raise _nonsense("logits that are not numbers in descending order")
    if (logits[:, 0] > sums + _SUM_SLACK).any():
        raise _nonsense("logits above the log-sum-exp of their row")


def _nonsense(what: str) -> EngineFailure:
    return EngineFailure("the draft model's answer", f"it has {what}", "check the draft's files, or export them anew")
