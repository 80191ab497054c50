"""A step model that ranks by a toy target's own truth, so that what is compared is known."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from edgespec.backend.toy import ToyModel
from edgespec.spec.ports import FloatArray, IntArray
from edgespec.spec.step import Ranked, StepLimits


@dataclass(slots=True)
class TwinStep:
    """A chain-only StepModel. shift: added to every logit, so that log-sums move with them. swapped: the two likeliest
    tokens change places, with their logits left in order.
    """

    model: ToyModel
    n_ranked: int = 4
    max_rows: int = 8
    n_ctx: int = 512
    shift: float = 0.0
    swapped: bool = False
    text: list[int] = field(default_factory=list)
    n_runs: int = 0
    closed: bool = False

    @property
    def name(self) -> str:
        return "twin"

    @property
    def limits(self) -> StepLimits:
        return StepLimits(self.n_ctx, self.model.n_vocab, self.n_ranked, self.max_rows, 16, False)

    def run(self, tokens: IntArray, start: int, parents: IntArray | None = None) -> Ranked:
        assert parents is None
        assert 0 < len(tokens) <= self.max_rows
        self.n_runs += 1
        self._write(tokens, start)
        rows = [self.model.logits(self.text[: start + i + 1]) + np.float32(self.shift) for i in range(len(tokens))]
        ids = np.array([np.argsort(-row, kind="stable")[: self.n_ranked] for row in rows], dtype=np.int32)
        logits = np.array([row[best] for row, best in zip(rows, ids, strict=True)], dtype=np.float32)
        if self.swapped:
            ids[:, :2] = ids[:, 1::-1]
        sums: FloatArray = np.array([np.logaddexp.reduce(row) for row in rows], dtype=np.float32)
        return Ranked(ids, logits, sums)

    def read(self, tokens: IntArray, start: int) -> None:
        assert 0 < len(tokens) <= 16
        self._write(tokens, start)

    def _write(self, tokens: IntArray, start: int) -> None:
        assert start <= len(self.text)
        assert start + len(tokens) <= self.n_ctx
        self.text[start:] = tokens.tolist()

    def keep(self, cells: IntArray, start: int) -> None:
        raise AssertionError("a comparison follows the text")

    def close(self) -> None:
        self.closed = True
