"""A llama_batch whose arrays are numpy's, filled in place and reused for every pass. Knows nothing of sequences'
meaning.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence as Seq

import llama_cpp
import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int32]

# Longer runs are written by numpy.
_FEW = 3


class Batch:
    """Room for `n_tokens` tokens that carry up to `n_ids` sequence ids each.

    Building a batch in Python objects each round is the usual hidden cost of driving llama.cpp from Python; here a few
    rows are a few stores, and many are five slice assignments.
    """

    def __init__(self, n_tokens: int, n_ids: int) -> None:
        self.capacity = n_tokens
        self.n = 0
        self._token = np.zeros(n_tokens, np.int32)
        self._position = np.zeros(n_tokens, np.int32)
        self._n_ids = np.zeros(n_tokens, np.int32)
        self._ids = np.zeros((n_tokens, n_ids), np.int32)
        self._output = np.zeros(n_tokens, np.int8)
        # Single items are written through these: a numpy assignment of a few costs as much as of hundreds.
        self._views = (self._token.data, self._position.data, self._n_ids.data, self._ids.data, self._output.data)
        rows = self._ids.ctypes.data + self._ids.strides[0] * np.arange(n_tokens, dtype=np.uint64)
        self._id_rows = rows.astype(np.uint64)
        self._struct = llama_cpp.llama_batch(
            n_tokens=0,
            token=_pointer(self._token, ctypes.c_int32),
            embd=None,
            pos=_pointer(self._position, ctypes.c_int32),
            n_seq_id=_pointer(self._n_ids, ctypes.c_int32),
            seq_id=ctypes.cast(self._id_rows.ctypes.data, ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))),
            logits=_pointer(self._output, ctypes.c_int8),
        )

    def clear(self) -> None:
        self.n = 0

    def add_run(self, tokens: IntArray, position: int, ids: IntArray, output: int) -> None:
        """Append consecutive tokens of one path, all carrying the same ids."""
        if len(tokens) <= _FEW:
            self._add_few(tokens.tolist(), position, ids.tolist(), output)
            return
        start, stop = self.n, self.n + len(tokens)
        self._token[start:stop] = tokens
        self._position[start:stop] = range(position, position + len(tokens))
        self._n_ids[start:stop] = len(ids)
        self._ids[start:stop, : len(ids)] = ids
        self._output[start:stop] = output
        self.n = stop

    def _add_few(self, tokens: Seq[int], position: int, ids: Seq[int], output: int) -> None:
        token_at, position_at, n_ids_at, ids_at, output_at = self._views
        for row, token in enumerate(tokens, self.n):
            token_at[row] = token
            position_at[row] = position
            n_ids_at[row] = len(ids)
            for place, own in enumerate(ids):
                ids_at[row, place] = own
            output_at[row] = output
            position += 1
        self.n += len(tokens)

    def add_nodes(self, tokens: IntArray, positions: Seq[int], ids: Seq[Seq[int]]) -> None:
        """Append the nodes of a tree, each with its own ids and an output."""
        start, stop = self.n, self.n + len(tokens)
        self._token[start:stop] = tokens
        self._position[start:stop] = positions
        self._n_ids[start:stop] = [len(own) for own in ids]
        ids_at = self._views[3]
        for row, own in enumerate(ids, start):
            for place, one in enumerate(own):
                ids_at[row, place] = one
        self._output[start:stop] = 1
        self.n = stop

    def highest_token(self) -> int:
        """The highest token id; a negative one counts as beyond every vocabulary."""
        tokens: list[int] = self._token[: self.n].tolist()
        return max(tokens, default=0) if min(tokens, default=0) >= 0 else 0xFFFFFFFF

    def struct(self) -> llama_cpp.llama_batch:
        self._struct.n_tokens = self.n
        return self._struct


def _pointer(array: npt.NDArray[np.generic], kind: type[ctypes.c_int32] | type[ctypes.c_int8]) -> object:
    return ctypes.cast(array.ctypes.data, ctypes.POINTER(kind))
