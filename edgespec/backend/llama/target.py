"""The target on libllama: prefill, one-pass verification of chains and trees, commit, rewind. Knows no text and no
clock.

Everything that would make the library abort the process is checked before the call (widths, ids, capacity), and its
return codes become errors. Used from one thread; only `interrupt` may be called from another.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace

import llama_cpp
import numpy as np

from edgespec.backend.llama import native
from edgespec.backend.llama.batch import Batch
from edgespec.backend.llama.cells import CachedSequence, Cells, IdPool
from edgespec.backend.llama.layout import is_contiguous, node_ids
from edgespec.backend.settings import LlamaSettings
from edgespec.errors import ContextOverflow, EngineFailure, StaleRows
from edgespec.spec.ports import Capabilities, Commit, FloatArray, IntArray, Rows, SequenceId, VerifyRequest
from edgespec.spec.tree import DraftTree, depths, is_chain, leaves

# A windowed cache multiplies its size by the number of ids and never reuses a cell with several, so its trees stay
# narrow.
WINDOWED_MAX_LEAVES = 3


class Interrupted(Exception):
    """A pass was aborted by `interrupt`; the cache is back at the state before it."""


@dataclass(frozen=True, slots=True)
class Placed:
    """What the last verify pass holds of one sequence, for the commit that follows."""

    request: VerifyRequest
    first_row: int
    chain: bool
    ids: list[list[int]]  # of each node; empty for a chain


class LlamaRows:
    """Logits rows of one request of the latest pass; a row is looked up only when asked for."""

    def __init__(self, target: LlamaTarget, first_row: int) -> None:
        self._target = target
        self._first_row = first_row
        self._generation = target.generation

    def logits(self, row: int) -> FloatArray:
        if self._generation != self._target.generation:
            raise StaleRows("these logits belong to an earlier pass of the target")
        return self._target.row(self._first_row + row)


class LlamaTarget:
    """`edgespec.spec.ports.Target` over one model and one context. Close it to free both."""

    interrupted: type[Exception] = Interrupted

    def __init__(self, model: llama_cpp.llama_model_p, settings: LlamaSettings) -> None:
        self.settings = settings
        self.generation = 0
        self.n_swa = int(llama_cpp.llama_model_n_swa(model))
        self._windowed = self.n_swa > 0 and not settings.swa_full
        self._can_rollback = not (llama_cpp.llama_model_is_recurrent(model) or llama_cpp.llama_model_is_hybrid(model))
        self._leaves = self._leaf_limit()
        self._n_ids = settings.max_sequences * self._leaves
        self._n_vocab = int(llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model)))
        self._row_type = ctypes.c_float * self._n_vocab
        self._abort = native.AbortFlag()
        self._model = model
        self._context = native.new_context(model, settings, self._n_ids, self._abort)
        self._cells = Cells(self._context)
        self._pool = IdPool(self._n_ids)
        self._batch = Batch(max(settings.prefill_chunk, settings.max_rows), max(1, self._leaves))
        self._sequences: dict[SequenceId, CachedSequence] = {}
        self._placed: dict[SequenceId, Placed] = {}
        self._width_classes: tuple[tuple[int, ...], ...] = ()

    def _leaf_limit(self) -> int:
        if not self._can_rollback:
            return 1
        return min(self.settings.max_leaves, WINDOWED_MAX_LEAVES) if self._windowed else self.settings.max_leaves

    # -- what it can do -----------------------------------------------------------------------------------------

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            n_ctx=self.settings.n_ctx,
            n_vocab=self._n_vocab,
            max_rows=self.settings.max_rows if self._can_rollback else 1,
            max_chunk=self.settings.prefill_chunk,
            max_leaves=min(self._leaves, len(self._pool) + 1),
            can_rollback=self._can_rollback,
            width_classes=self._width_classes,
        )

    def set_width_classes(self, classes: tuple[tuple[int, ...], ...]) -> None:
        """Take over what a probe found; see `edgespec.backend.widths`."""
        self._width_classes = classes

    def set_threads(self, n: int) -> None:
        llama_cpp.llama_set_n_threads(self._context, n, n)
        self.settings = replace(self.settings, n_threads=n)

    def length(self, sequence: SequenceId) -> int:
        cached = self._sequences.get(sequence)
        return cached.length if cached else 0

    # -- the passes ---------------------------------------------------------------------------------------------

    def extend(self, sequence: SequenceId, tokens: IntArray) -> None:
        if len(tokens) > self.settings.prefill_chunk:
            raise ValueError(f"a chunk of {len(tokens)} tokens exceeds {self.settings.prefill_chunk}")
        if len(tokens) == 0:
            return
        cached = self._open(sequence)
        self._check_room(cached, len(tokens))
        self._batch.clear()
        self._batch.add_run(tokens, cached.length, cached.id_array, 0)
        self._decode()
        cached.length += len(tokens)

    def verify(self, requests: Seq[VerifyRequest], width: int) -> list[Rows]:
        n_rows = sum(len(r.pending) + len(r.tree) for r in requests)
        if not n_rows <= width <= self.settings.max_rows:
            raise ValueError(f"{n_rows} rows do not fit a width of {width} (limit {self.settings.max_rows})")
        self._batch.clear()
        self._placed.clear()
        rows = [
            self._place(request, width - n_rows if i == len(requests) - 1 else 0) for i, request in enumerate(requests)
        ]
        self._decode()
        return [LlamaRows(self, first) for first in rows]

    def _place(self, request: VerifyRequest, n_padding: int) -> int:
        """Write one request into the batch; returns the batch row of its last pending token."""
        cached = self._open(request.sequence)
        n_pending, n_nodes = len(request.pending), len(request.tree)
        self._check_room(cached, n_pending + n_nodes + n_padding - self.settings.max_rows)
        chain = is_chain(request.tree)
        if not chain:
            self._attach(cached, len(leaves(request.tree)))
        first = self._batch.n + n_pending - 1
        self._batch.add_run(request.pending, cached.length, cached.id_array, 1)
        ids = [] if chain else self._place_tree(cached, request.tree, cached.length + n_pending)
        if chain:
            self._batch.add_run(request.tree.tokens, cached.length + n_pending, cached.id_array, 1)
        if n_padding:
            self._place_padding(cached, request, n_padding, ids)
        self._placed[request.sequence] = Placed(request, first, chain, ids)
        return first

    def _place_tree(self, cached: CachedSequence, tree: DraftTree, start: int) -> list[list[int]]:
        ids = node_ids(tree.parents.tolist(), cached.ids)
        for token, depth, own in zip(tree.tokens.tolist(), depths(tree).tolist(), ids, strict=True):
            self._batch.add(token, start + depth - 1, own)
        return ids

    def _place_padding(self, cached: CachedSequence, request: VerifyRequest, n: int, ids: list[list[int]]) -> None:
        """Rows whose results are thrown away: they prolong the last-listed path, behind everything that counts."""
        depth = int(depths(request.tree)[-1]) if ids else len(request.tree)
        own = np.array(ids[-1], np.int32) if ids else cached.id_array
        start = cached.length + len(request.pending) + depth
        self._batch.add_run(np.full(n, request.pending[-1], np.int32), start, own, 1)

    def commit(self, sequence: SequenceId, commit: Commit) -> IntArray:
        placed = self._placed.pop(sequence)
        cached = self._sequences[sequence]
        fork = cached.length + len(placed.request.pending)
        path = commit.path.tolist()
        if not self._can_rollback:
            cached.length = fork
            return commit.tokens
        if placed.request.canonical and not is_contiguous(path):
            self._cells.cut(cached, fork)
            return commit.tokens
        if placed.chain or not path:
            self._cells.cut(cached, fork + len(path))
        else:
            self._cells.keep_branch(cached, placed.ids[path[-1]][0], fork, fork + len(path))
        if self._windowed:
            self._pool.give_back(self._cells.detach(cached))
        return commit.tokens[-1:]

    def rewind(self, sequence: SequenceId, length: int) -> int:
        cached = self._sequences.get(sequence)
        if cached is None or length >= cached.length:
            return cached.length if cached else 0
        if length <= 0 or not self._can_rollback or not self._window_reaches(cached, length):
            self._cells.forget(cached)
            return 0
        self._cells.cut(cached, length)
        return length

    def _window_reaches(self, cached: CachedSequence, length: int) -> bool:
        """Whether everything the next token would attend to is still cached: positions length - n_swa + 1 and later."""
        return not self._windowed or self._cells.first_position(cached) <= max(0, length - self.n_swa + 1)

    def release(self, sequence: SequenceId) -> None:
        cached = self._sequences.pop(sequence, None)
        if cached is not None:
            self._cells.forget(cached)
            self._pool.give_back(cached.ids)

    # -- cancelling and closing ---------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Abort the pass that is running, or the next one: it raises Interrupted. CPU only; elsewhere the pass ends
        first.
        """
        self._abort.set()

    def resume(self) -> None:
        """Forget an interrupt."""
        self._abort.clear()

    def close(self) -> None:
        if self._context is not None:
            llama_cpp.llama_free(self._context)
            llama_cpp.llama_model_free(self._model)
            self._context = None

    # -- inside -------------------------------------------------------------------------------------------------

    def row(self, batch_row: int) -> FloatArray:
        """float32[n_vocab], a view into libllama's buffer."""
        pointer = llama_cpp.llama_get_logits_ith(self._context, batch_row)
        buffer = self._row_type.from_address(ctypes.addressof(pointer.contents))
        row: FloatArray = np.frombuffer(memoryview(buffer), np.float32)
        return row

    def _open(self, sequence: SequenceId) -> CachedSequence:
        if sequence not in self._sequences:
            self._sequences[sequence] = CachedSequence([self._pool.take()])
        return self._sequences[sequence]

    def _attach(self, cached: CachedSequence, n_leaves: int) -> None:
        missing = n_leaves - len(cached.ids)
        if n_leaves > self._leaves or missing > len(self._pool):
            raise ValueError(f"a tree of {n_leaves} leaves exceeds the {self.capabilities.max_leaves} that are left")
        if missing > 0:
            self._cells.attach(cached, [self._pool.take() for _ in range(missing)])

    def _check_room(self, cached: CachedSequence, n_tokens: int) -> None:
        """All sequences share one pool of n_ctx cells; a verify pass has `max_rows` more to itself."""
        used = sum(one.length for one in self._sequences.values())
        if used + n_tokens > self.settings.n_ctx:
            raise ContextOverflow(
                f"cannot read {n_tokens} more tokens after {cached.length}",
                f"the context holds {self.settings.n_ctx} and {used} are in use",
                "shorten the text or raise --ctx-size",
            )

    def _decode(self) -> None:
        self.generation += 1
        code = llama_cpp.llama_decode(self._context, self._batch.struct())
        if code == 0:
            return
        for cached in self._sequences.values():
            self._cells.cut(cached, cached.length)
        if code == 2:
            raise Interrupted
        raise EngineFailure(
            f"llama_decode returned {code} for {self._batch.n} tokens", native.log().reason(), "see 'edgespec doctor'"
        )
