"""Step models for a child process: a plain one, and one whose tokens are orders to misbehave."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import numpy as np

from edgespec.errors import EngineFailure
from edgespec.spec import noise
from edgespec.spec.ports import IntArray
from edgespec.spec.step import Ranked, StepLimits

RAISES, FAILS, HANGS, DIES, IS_NAN, PRINTS, IS_ODD = range(100, 107)


class TableStep:
    """Ranks by a hash of the tokens in all cells up to the row's own, and of the parents it is told."""

    name = "table"
    limits = StepLimits(n_ctx=64, n_vocab=128, n_ranked=3, max_rows=8, max_chunk=16, branches=True)

    def __init__(self) -> None:
        self.cells: list[int] = []

    def run(self, tokens: IntArray, start: int, parents: IntArray | None = None) -> Ranked:
        self.read(tokens, start)
        self._obey(int(tokens[-1]))
        rows = [self._row(start + i + 1, parents) for i in range(len(tokens))]
        ids = np.array([np.argsort(-row, kind="stable")[:3] for row in rows], np.int32)
        logits = np.array([row[order] for row, order in zip(rows, ids, strict=True)], np.float32)
        if tokens[-1] == IS_NAN:
            logits[-1, 0] = np.nan
            logits[-1, 1] = -np.inf
        if tokens[-1] == IS_ODD:
            ids = ids[:, :1] + 1000
        return Ranked(ids, logits, np.array([np.log(np.exp(row).sum()) for row in rows], np.float32))

    def read(self, tokens: IntArray, start: int) -> None:
        if start > len(self.cells):
            raise ValueError(f"cell {start} lies behind the last known cell {len(self.cells)}")
        self.cells[start:] = tokens.tolist()

    def keep(self, cells: IntArray, start: int) -> None:
        self.cells[start:] = [self.cells[cell] for cell in cells.tolist()]

    def close(self) -> None: ...

    def _row(self, n_seen: int, parents: IntArray | None) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        key = 0
        for token in [*self.cells[:n_seen], *([] if parents is None else parents.tolist())]:
            key = noise.mix(key + token + 2)
        return noise.uniform(key, np.arange(128))

    def _obey(self, token: int) -> None:
        if token == RAISES:
            raise RuntimeError("no such layer")
        if token == FAILS:
            raise EngineFailure("the draft", "out of buffers", "wait")
        if token == HANGS:
            threading.Event().wait()
        if token == DIES:
            print("tile 7 is broken", file=sys.stderr, flush=True)
            os._exit(9)
        if token == PRINTS:
            print("hello")
            os.write(1, b"native hello\n")
            sys.stdout.flush()


def gated(argument: str) -> TableStep:
    """Loads as long as there is no such file."""
    while not Path(argument).exists():
        time.sleep(0.005)
    return TableStep()


def nosy(argument: str) -> TableStep:
    """Reads stdin to its end first."""
    assert not os.read(0, 1)
    return table(argument)


def table(argument: str) -> TableStep:
    if argument:
        raise EngineFailure(f"cannot open {argument}", "there is no such draft", "look again")
    return TableStep()
