"""The target on libllama: prefill, one-pass verification of chains and trees, commit, rewind. Knows no text and no
clock.

Everything that would make the library abort the process is checked before the call (widths, ids, capacity), and its
return codes become errors. Used from one thread; only `interrupt` may be called from another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from dataclasses import replace

import llama_cpp

from edgespec.backend.llama import native
from edgespec.backend.llama.batch import Batch
from edgespec.backend.llama.cells import CachedSequence, Cells
from edgespec.backend.llama.layout import check_path, n_in_line, n_leaves
from edgespec.backend.llama.limits import PassLimits, refusal, require
from edgespec.backend.llama.log import log
from edgespec.backend.llama.placing import Placed, place
from edgespec.backend.llama.rows import LlamaRows, Logits
from edgespec.backend.llama.sequences import Sequences
from edgespec.backend.llama.support import can_roll_back
from edgespec.backend.llama.watchdog import Watchdog
from edgespec.backend.settings import LlamaSettings, loaded_alike
from edgespec.errors import ContextOverflow, EdgeSpecError, EngineFailure
from edgespec.spec.ports import Capabilities, Commit, FloatArray, IntArray, Rows, SequenceId, VerifyRequest
from edgespec.spec.tree import DraftTree

# What llama_decode returns when the abort callback ended the pass; below -1 it broke off while computing.
ABORTED, BAD_BATCH = 2, -1


class Interrupted(Exception):
    """A pass was aborted by `interrupt`; the cache is back at the state before it."""


class Late(Exception):
    """A pass was aborted at the limit of `limit_passes`; the cache is back at the state before it."""


class LlamaTarget:
    """`edgespec.spec.ports.Target` over one model and one context. It owns both, also when its construction fails;
    close it to free them. A closed target raises EngineFailure.

    n_swa: tokens of the model's sliding window, 0 without one. windowed: the cache of such layers is a ring that holds
    little more than the window; where it starts anew, rejected rows shift the cells of what follows, and its last bits.
    parent: another target whose model, and whose `interrupt`, this one shares; it is closed before its parent.
    """

    interrupted: type[Exception] = Interrupted
    late: type[Exception] = Late

    def __init__(self, model: native.LoadedModel, settings: LlamaSettings, parent: LlamaTarget | None = None) -> None:
        self.generation = 0
        pointer = model.pointer
        self.n_swa = int(llama_cpp.llama_model_n_swa(pointer))
        self._can_rollback = can_roll_back(pointer)
        self._n_vocab = int(llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(pointer)))
        self._model = model
        self._owns_model = parent is None
        self._abort: native.AbortFlag = parent._abort if parent else native.AbortFlag()
        self._watchdog: Watchdog | None = None
        self._closed = False
        try:
            self._open(settings)
        except EdgeSpecError:
            self._free_model()
            raise

    def _open(self, settings: LlamaSettings) -> None:
        """Make the context, and everything that depends on its settings."""
        self.settings = settings
        self.windowed = self.n_swa > 0 and not settings.swa_full
        # The ring never reuses a cell that several ids name, and a tree needs every cell of its text to have them all.
        max_leaves = settings.max_leaves if self._can_rollback and not self.windowed else 1
        self._n_ids = settings.max_sequences * max_leaves
        n_rows = settings.max_rows if self._can_rollback else min(settings.max_rows, self._n_ids)
        self._limits = PassLimits(n_rows, max_leaves, self._can_rollback)
        self._limit_seconds = math.inf
        self._context: llama_cpp.llama_context_p = None
        # A running state that broke off in mid-pass is lost, so there an interrupt takes effect between passes.
        abort = self._abort if self._can_rollback else None
        self._context = native.new_context(self._model, settings, self._n_ids, abort)
        self._logits = Logits(self._context, n_rows, self._n_vocab)
        self._cells = Cells(self._context)
        self._batch = Batch(max(settings.prefill_chunk, settings.max_rows), max_leaves)
        self._sequences = Sequences(self._cells, self._n_ids)
        self._placed: dict[SequenceId, Placed] = {}
        self._capabilities = Capabilities(
            n_ctx=settings.n_ctx,
            n_vocab=self._n_vocab,
            max_rows=n_rows,
            max_chunk=settings.prefill_chunk,
            max_leaves=max_leaves,
            can_rollback=self._can_rollback,
            max_sequences=settings.max_sequences,
        )

    def reopen(self, settings: LlamaSettings) -> None:
        """Go on with other settings and an empty cache; how the weights are loaded must be the same. Raises
        NotEnoughMemory or EngineFailure, and is then as before, but as empty.
        """
        self._require_open()
        before = self.settings
        require(loaded_alike(before, settings), "settings that need the model loaded again")
        self._close_context()
        try:
            self._open(settings)
        except EdgeSpecError:
            self._open(before)
            raise

    # -- what it can do -----------------------------------------------------------------------------------------

    @property
    def capabilities(self) -> Capabilities:
        """`max_leaves` is what every open sequence can have at the same time."""
        max_leaves = max(1, min(self._limits.max_leaves, self._n_ids // max(1, len(self._sequences))))
        if max_leaves != self._capabilities.max_leaves:  # asked for in every round, so made anew only when it changes
            self._capabilities = replace(self._capabilities, max_leaves=max_leaves)
        return self._capabilities

    def set_width_classes(self, classes: tuple[tuple[int, ...], ...]) -> None:
        """Take over what a probe found; see `edgespec.backend.widths`."""
        self._capabilities = replace(self._capabilities, width_classes=classes)

    def set_threads(self, n: int, n_batch: int = 0) -> None:
        """Threads of passes of one row, and of wider ones: 0 for as many."""
        self._require_open()
        self.settings = replace(self.settings, n_threads=n, n_threads_batch=n_batch)
        llama_cpp.llama_set_n_threads(self._context, n, n_batch or n)

    def limit_passes(self, seconds: float) -> None:
        """From now on a pass that takes longer is aborted and raises Late, unless somebody interrupts it too; inf lifts
        the limit. It may be noticed some 25 ms too late. Where a running pass cannot be aborted there is no limit.
        """
        if self._can_rollback and self.settings.n_gpu_layers == 0:
            self._limit_seconds = seconds

    def sibling(self, n_ctx: int) -> LlamaTarget:
        """Another target over the same model with an empty cache of its own; the caller closes it."""
        self._require_open()
        return LlamaTarget(self._model, replace(self.settings, n_ctx=n_ctx), parent=self)

    def length(self, sequence: SequenceId) -> int:
        cached = self._sequences.get(sequence)
        return cached.length if cached else 0

    # -- the passes ---------------------------------------------------------------------------------------------

    def extend(self, sequence: SequenceId, tokens: IntArray) -> None:
        self._require_idle(sequence)
        require(len(tokens) <= self.settings.prefill_chunk, f"a chunk of {len(tokens)} tokens")
        if len(tokens) == 0:
            return
        self._check_room(sequence, len(tokens))
        cached = self._sequences.open(sequence, self._placed)
        self._batch.clear()
        self._batch.add_run(tokens, cached.length, cached.id_array, 0)
        self._decode([cached])
        cached.length += len(tokens)

    def verify(self, requests: Seq[VerifyRequest], width: int) -> list[Rows]:
        if width == len(requests) == len(requests[0].pending) == 1 and not len(requests[0].tree):
            return [self._step(requests[0])]
        return self._verify(requests, width)

    def _verify(self, requests: Seq[VerifyRequest], width: int) -> list[Rows]:
        """Of any requests, also of those that `_step` takes."""
        for request in requests:
            self._require_idle(request.sequence)
        self._limits.check(requests, width)
        self._check_room(requests[0].sequence, width - self.settings.max_rows)
        self._sequences.share({r.sequence: _n_ids(r.tree) for r in requests}, self._placed)
        self._batch.clear()
        n_padding = width - sum(len(r.pending) + len(r.tree) for r in requests)
        last = len(requests) - 1
        placed = [
            place(self._batch, self._sequences[request.sequence], request, n_padding if i == last else 0)
            for i, request in enumerate(requests)
        ]
        self._decode([self._sequences[request.sequence] for request in requests])
        self._placed.update({one.request.sequence: one for one in placed})
        return [LlamaRows(self, one.first_row, 1 + len(one.request.tree)) for one in placed]

    def _step(self, request: VerifyRequest) -> Rows:
        """A pass over one token, without what drafts and batches need: most passes of most answers are such ones."""
        self._require_idle(request.sequence)
        self._check_room(request.sequence, 1 - self.settings.max_rows)
        cached = self._sequences.open(request.sequence, self._placed)
        self._batch.clear()
        self._batch.add_run(request.pending, cached.length, cached.id_array, 1)
        self._decode([cached])
        self._placed[request.sequence] = Placed(request, 0, True, [], cached.length + 1)
        return LlamaRows(self, 0, 1)

    def commit(self, sequence: SequenceId, commit: Commit) -> IntArray:
        placed = self._placed.get(sequence)
        if placed is None:
            raise ValueError(f"a commit without a verify on sequence {sequence}")
        path = commit.path.tolist()
        check_path(placed.request.tree, path, commit.tokens)
        del self._placed[sequence]
        n_kept = n_in_line(path) if placed.request.canonical else len(path)
        self._keep(self._sequences[sequence], placed, path[:n_kept])
        return commit.tokens[n_kept:]

    def _keep(self, cached: CachedSequence, placed: Placed, path: list[int]) -> None:
        """Keep the pending tokens and the path of the last pass, drop its other rows."""
        fork = cached.length + len(placed.request.pending)
        if not self._can_rollback:
            cached.length = fork
        elif placed.chain and placed.end == fork + len(path):  # nothing was rejected
            cached.length = placed.end
        elif placed.chain or not path:
            self._cells.cut(cached, fork + len(path))
        else:
            self._cells.keep_branch(cached, placed.ids[path[-1]][0], fork, fork + len(path))

    def rewind(self, sequence: SequenceId, length: int) -> int:
        self._require_idle(sequence)
        cached = self._sequences.get(sequence)
        if cached is None or length >= cached.length:
            return cached.length if cached else 0
        if length <= 0 or not self._can_rollback or not self._window_reaches(cached, length):
            self._cells.forget(cached)
            return 0
        self._cells.cut(cached, length)
        return length

    def _window_reaches(self, cached: CachedSequence, length: int) -> bool:
        """Whether everything the next token would attend to is still cached: positions length - n_swa + 1 and later.

        To be asked of a full-size cache too: once another sequence has left it, cells that the window has passed are
        taken before those at the end.
        """
        return not self.n_swa or 0 <= self._cells.first_position(cached) <= max(0, length - self.n_swa + 1)

    def release(self, sequence: SequenceId) -> None:
        self._placed.pop(sequence, None)
        self._sequences.release(sequence)

    # -- cancelling and closing ---------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Abort the pass that is running, or the next one: it raises Interrupted. On a GPU, and for a model that cannot
        roll back, a running pass ends first.
        """
        self._abort.set()

    def resume(self) -> None:
        """Forget an interrupt."""
        self._abort.clear()

    def close(self) -> None:
        """Free the context, and the model unless it belongs to a parent. Closing twice is harmless."""
        if self._closed:
            return
        self._closed = True
        if self._watchdog is not None:
            self._watchdog.close()
        if self._context is not None:
            self._close_context()
        self._free_model()

    def _close_context(self) -> None:
        context, self._context = self._context, None
        self.generation += 1  # what rows there were point into freed memory
        self._sequences.clear()
        self._placed.clear()
        llama_cpp.llama_free(context)

    def _free_model(self) -> None:
        if self._owns_model:
            self._model.free()

    # -- inside -------------------------------------------------------------------------------------------------

    def row(self, batch_row: int) -> FloatArray:
        """float32[n_vocab], a read-only view into libllama's buffer."""
        row: FloatArray = self._logits.rows(self.generation)[batch_row]
        return row

    def _require_open(self) -> None:
        if self._context is None:
            raise EngineFailure("cannot use the model", "it has been closed", "open it again")

    def _require_idle(self, sequence: SequenceId) -> None:
        self._require_open()
        if sequence in self._placed:
            raise refusal(f"sequence {sequence} while its verify awaits a commit")

    def _check_room(self, sequence: SequenceId, n_tokens: int) -> None:
        """All sequences share one pool of n_ctx cells; a verify pass has `max_rows` more to itself."""
        used = self._sequences.n_cells
        if used + n_tokens > self.settings.n_ctx:
            raise ContextOverflow(
                f"cannot read on after {self.length(sequence)} tokens",
                f"the context holds {self.settings.n_ctx} and {used} are in use",
                "shorten the text or raise --ctx-size",
            )

    def _decode(self, touched: list[CachedSequence]) -> None:
        """Run the batch, which adds to these sequences; after an error they are as before."""
        self._require_open()
        if self._batch.highest_token() >= self._n_vocab:
            raise refusal(f"token ids beyond a vocabulary of {self._n_vocab}")
        self.generation += 1
        if self._abort.is_set():
            raise Interrupted
        code, late = self._compute()
        if code == 0:
            return
        for cached in touched:
            self._undo(cached, code)
        if code == ABORTED:
            raise Late if late and not self._abort.is_set() else Interrupted
        raise EngineFailure(
            f"llama_decode returned {code} for {self._batch.n} tokens", log().reason(), "see 'edgespec doctor'"
        )

    def _compute(self) -> tuple[int, bool]:
        """The library's code, and whether the pass was out of time, though it may have ended all the same."""
        if self._limit_seconds == math.inf:
            return llama_cpp.llama_decode(self._context, self._batch.struct()), False
        if self._watchdog is None:
            self._watchdog = Watchdog(self._abort.expire)
        self._watchdog.arm(self._limit_seconds)
        code = llama_cpp.llama_decode(self._context, self._batch.struct())
        self._watchdog.disarm()
        return code, self._abort.expired and self._abort.take_expired()

    def _undo(self, cached: CachedSequence, code: int) -> None:
        if self._can_rollback:
            self._cells.cut(cached, cached.length)
            self._cells.check_end(cached)
        elif code < BAD_BATCH:
            self._cells.forget(cached)  # its running state is lost: half of it may be that of the broken pass


def _n_ids(tree: DraftTree) -> int:
    return n_leaves(tree.parents.tolist()) if len(tree) else 0
