"""A step model on ONNX Runtime. Its keys and values lie in host memory, so that a rollback is arithmetic.

Knows no law and no text. One thread uses it; which one is settled by the first call.
"""

from __future__ import annotations

import math
import threading
from pathlib import Path

import numpy as np

from edgespec.backend.onnx.cells import CellTree
from edgespec.backend.onnx.lane import Lane, bucket_for, new_cells
from edgespec.backend.onnx.rotary import rotary_table
from edgespec.backend.onnx.session import OnnxSettings, open_session
from edgespec.errors import EngineFailure
from edgespec.spec.ports import IntArray
from edgespec.spec.step import Ranked, StepLimits
from edgespec.stepfile import StepFolder, read_step

# Rows of a read, beside those of a run. More of them at once gain nothing on a CPU, and delay a cancel.
READ_ROWS = (8, 16, 32, 64)


class OnnxStep:
    """`edgespec.spec.step.StepModel` over the folder of a step model."""

    def __init__(self, folder: StepFolder, settings: OnnxSettings | None = None) -> None:
        """Raises MissingExtra, BadInput (no such provider), CorruptModel, EngineFailure."""
        file = folder.file
        self.folder = folder
        self._file = file
        settings = settings or OnnxSettings()
        self._session = open_session(folder, settings)
        n_ctx = min(file.n_ctx, settings.n_ctx or file.n_ctx)
        self._embedding = np.asarray(folder.embedding)  # a plain view: memory maps are slow to index
        self._rope = [rotary_table(table, file.head_dim, n_ctx) for table in file.rope]
        self._row_counts = sorted({*file.rows, *READ_ROWS})
        self._limits = StepLimits(
            n_ctx=n_ctx,
            n_vocab=file.n_vocab,
            n_ranked=file.n_ranked,
            max_rows=file.rows[-1],
            max_chunk=self._row_counts[-1],
            branches=True,
        )
        self._tree = CellTree(n_ctx)
        self._lanes: dict[int, Lane] = {}
        self._cells = new_cells(file, bucket_for(1, n_ctx))
        self._owner: int | None = None
        self._closed = False

    @classmethod
    def open(cls, path: Path, settings: OnnxSettings | None = None) -> OnnxStep:
        """Raises what `read_step` and the constructor raise."""
        return cls(read_step(path), settings)

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def limits(self) -> StepLimits:
        return self._limits

    def run(self, tokens: IntArray, start: int, parents: IntArray | None = None) -> Ranked:
        self._check(tokens, self._limits.max_rows)
        lane = self._compute(tokens, start, parents)
        n = len(tokens)
        ids = lane.ids[:n] if self.folder.head_ids is None else self.folder.head_ids[lane.ids[:n]]
        return Ranked(ids.copy(), lane.logits[:n].copy(), lane.log_sums[:n].copy())

    def read(self, tokens: IntArray, start: int) -> None:
        self._check(tokens, self._limits.max_chunk)
        self._compute(tokens, start, None)

    def keep(self, cells: IntArray, start: int) -> None:
        self._enter()
        kept = cells.tolist()
        self._tree.keep(kept, start)
        if kept and kept[-1] != start + len(kept) - 1:
            self._cells[:, :, start : start + len(kept)] = self._cells[:, :, kept]

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._lanes.clear()
            del self._session, self._cells

    # -- inside -------------------------------------------------------------------------------------------------

    def _enter(self) -> None:
        """Two threads in one cache would mix their texts, and show it only in the drafts' quality."""
        if self._closed:
            raise EngineFailure("cannot use the draft", "it has been closed", "open it again")
        here = threading.get_ident()
        if self._owner is None:
            self._owner = here
        if self._owner != here:
            raise RuntimeError(f"thread {here} uses the step model of thread {self._owner}")

    def _check(self, tokens: IntArray, most: int) -> None:
        self._enter()
        if not 0 < len(tokens) <= most:
            raise ValueError(f"{len(tokens)} tokens, 1 to {most} are possible")
        if tokens.min() < 0 or tokens.max() >= self._limits.n_vocab:
            raise ValueError(f"token ids {tokens.tolist()} of {self._limits.n_vocab}")

    def _compute(self, tokens: IntArray, start: int, parents: IntArray | None) -> Lane:
        """Run the rows, and keep their keys and values; after an error cell `start` and those behind are forgotten."""
        n = len(tokens)
        self._tree.add(start, n, parents)
        self._reserve(start + n)
        lane = self._lane(n)
        self._fill(lane, tokens, start)
        try:
            lane.run()
            self._require_numbers(lane, n)
        except BaseException:  # also Ctrl-C: cells without keys must not pass for known ones; raised again
            self._tree.cut(start)
            raise
        self._cells[:, :, start : start + n] = lane.new[:, :, :n]
        return lane

    def _lane(self, n: int) -> Lane:
        n_rows = next(rows for rows in self._row_counts if rows >= n)
        lane = self._lanes.get(n_rows)
        if lane is None:
            lane = self._lanes[n_rows] = Lane(self._session, self._file, n_rows, self._cells)
        return lane

    def _reserve(self, n_cells: int) -> None:
        """Room for so many cells; a text much shorter than the last one goes back to small buffers."""
        bucket, now = bucket_for(n_cells, self._limits.n_ctx), self._cells.shape[2]
        if now // 4 < bucket <= now:
            return
        cells = new_cells(self._file, bucket)
        n_known = min(n_cells, now)
        cells[:, :, :n_known] = self._cells[:, :, :n_known]
        self._cells = cells
        self._lanes.clear()  # they are bound to the old ones

    def _fill(self, lane: Lane, tokens: IntArray, start: int) -> None:
        n, inputs = len(tokens), lane.inputs
        # Without the type a float16 table would be scaled, and rounded once more, in float16.
        np.multiply(self._embedding[tokens], self._file.embedding_scale, out=inputs["x"][:n], dtype=np.float32)
        inputs["x"][n:] = inputs["x"][0]  # rows of padding, whose results nobody reads
        depths = self._tree.depths[start:]
        for (cos, sin), end in zip(self._rope, ("", "_local"), strict=False):
            inputs[f"cos{end}"][:n] = cos[depths]
            inputs[f"sin{end}"][:n] = sin[depths]
        masks = (inputs["mask"], inputs["own_mask"])
        self._tree.fill(start, *masks)
        if self._file.windowed:
            local = (inputs["mask_local"], inputs["own_mask_local"])
            self._tree.fill_window(start, self._file.sliding_window, masks, local)

    def _require_numbers(self, lane: Lane, n: int) -> None:
        """Raises EngineFailure. Keys or values that are no numbers show in their own row's sum, and would poison every
        later row, even masked.
        """
        if not all(map(math.isfinite, lane.log_sums[:n].tolist())):
            why = "it computed values that are no numbers"
            raise EngineFailure(f"the draft {self.name} failed", why, "answers go on without it; export it again")
