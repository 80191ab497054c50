"""A step model without a network: each cell holds the whole text it has seen, so a stale or wrong cell shows at once.

It refuses, with ValueError, every call that breaks the contract of `spec.step`, and counts its calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from edgespec.spec import noise
from edgespec.spec.ports import FloatArray, IntArray
from edgespec.spec.step import Ranked, StepLimits

Text = tuple[int, ...]
LogitsOf = Callable[[Text], FloatArray]


def hashed(n_vocab: int, seed: int, spread: float = 3.0, n_levels: int = 0) -> LogitsOf:
    """Logits hashed from the whole text; n_levels > 0 rounds them so that ties abound."""

    def logits_of(text: Text) -> FloatArray:
        key = noise.mix(seed + 1)
        for token in text:
            key = noise.mix(key ^ (token + 1))
        height = noise.uniform(key, np.arange(n_vocab))
        if n_levels:
            height = np.floor(height * n_levels) / n_levels
        return (spread * (2.0 * height - 1.0)).astype(np.float32)

    return logits_of


def toy_limits(
    n_vocab: int,
    n_ranked: int | None = None,
    n_ctx: int = 256,
    max_rows: int = 8,
    max_chunk: int = 16,
    branches: bool = True,
) -> StepLimits:
    return StepLimits(n_ctx, n_vocab, n_vocab if n_ranked is None else n_ranked, max_rows, max_chunk, branches)


class ToyStep:
    """ports StepModel; `head` are the target ids that the draft's own vocabulary consists of, all by default."""

    name = "toy"

    def __init__(self, logits_of: LogitsOf, limits: StepLimits, head: Sequence[int] | None = None) -> None:
        self.limits = limits
        self.n_runs = self.n_rows = self.n_read = self.n_kept = 0
        self.cells: list[Text] = []
        self._logits_of = logits_of
        self._head = np.array(range(limits.n_vocab) if head is None else head, np.int32)

    def run(self, tokens: IntArray, start: int, parents: IntArray | None = None) -> Ranked:
        _require(1 <= len(tokens) <= self.limits.max_rows, f"{len(tokens)} rows")
        _require(tokens.dtype == np.int32, f"tokens of {tokens.dtype}")
        self._write(tokens, start, parents)
        self.n_runs += 1
        self.n_rows += len(tokens)
        return self._ranked(self.cells[start:])

    def read(self, tokens: IntArray, start: int) -> None:
        _require(1 <= len(tokens) <= self.limits.max_chunk, f"a chunk of {len(tokens)}")
        self._write(tokens, start, None)
        self.n_read += len(tokens)

    def keep(self, cells: IntArray, start: int) -> None:
        places: list[int] = cells.tolist()
        _require(places == sorted(set(places)) and start <= places[0], f"cells {places} to {start}")
        _require(places[-1] < len(self.cells), f"cell {places[-1]} of {len(self.cells)}")
        kept = self.cells[:start]
        for place in places:
            _require(self.cells[place][:-1] == (kept[-1] if kept else ()), f"cell {place} continues another one")
            kept.append(self.cells[place])
        self.cells = kept
        self.n_kept += 1

    def close(self) -> None:
        self.cells = []

    def _write(self, tokens: IntArray, start: int, parents: IntArray | None) -> None:
        _require(0 <= start <= len(self.cells), f"start {start} of {len(self.cells)} cells")
        _require(start + len(tokens) <= self.limits.n_ctx, f"{start + len(tokens)} cells")
        own = list(range(start - 1, start - 1 + len(tokens)))
        above: list[int] = own if parents is None else parents.tolist()
        _require(self.limits.branches or above == own, "branches")
        _require(len(above) == len(tokens), f"{len(above)} parents")
        del self.cells[start:]
        for token, parent in zip(tokens.tolist(), above, strict=True):
            _require(-1 <= parent < len(self.cells), f"parent {parent} of cell {len(self.cells)}")
            self.cells.append((*(self.cells[parent] if parent >= 0 else ()), token))

    def _ranked(self, texts: list[Text]) -> Ranked:
        k = self.limits.n_ranked
        rows = np.array([self._logits_of(text)[self._head] for text in texts])
        best = np.argsort(-rows, axis=1, kind="stable")[:, :k]
        top = rows.max(axis=1, keepdims=True)
        sums = top[:, 0] + np.log(np.exp(rows - top).sum(axis=1))
        return Ranked(self._head[best], np.take_along_axis(rows, best, axis=1), sums.astype(np.float32))


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)
