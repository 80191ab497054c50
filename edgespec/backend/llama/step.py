"""A draft network on libllama: a small GGUF behind the socket of `edgespec.spec.step`, one chain of cells.

It has a model and a context of its own, so the target's settings do not touch it. Where the library cannot roll back as
far as it is asked to (a sliding window has dropped cells), it reads again what is missing, by itself. Knows no
drafter, no text and no clock.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from edgespec.backend.llama.native import load_model
from edgespec.backend.llama.ranking import Ranker
from edgespec.backend.llama.target import LlamaTarget
from edgespec.backend.settings import FlashAttention, LlamaSettings
from edgespec.errors import EdgeSpecError, UnsupportedModel
from edgespec.spec.ports import Commit, IntArray, VerifyRequest
from edgespec.spec.step import Ranked, StepLimits
from edgespec.spec.tree import chain

# The one sequence of its context.
SEQUENCE = 0
N_RANKED = 16
# Read in the place of a token that only the target has: what follows is then guessed worse, and stays a guess.
STAND_IN = 0


def draft_settings(n_ctx: int, n_threads: int, n_gpu_layers: int = 0, max_rows: int = 16) -> LlamaSettings:
    """How a draft is usually opened. n_gpu_layers: -1 for all. max_rows: the most rows of one run."""
    flash = FlashAttention.AUTO if n_gpu_layers else FlashAttention.OFF
    return LlamaSettings(
        n_ctx=n_ctx,
        n_threads=n_threads,
        flash_attention=flash,
        n_gpu_layers=n_gpu_layers,
        max_rows=max_rows,
        max_leaves=1,
        max_sequences=1,
    )


def open_step(
    path: Path, settings: LlamaSettings, n_ranked: int = N_RANKED, n_vocab: int = 0, name: str = ""
) -> LlamaStep:
    """Load a GGUF as a draft; the arguments are those of `LlamaStep`, whose name is the file's unless one is given.

    Raises what `load_model` and `LlamaTarget` do, UnsupportedModel for a model that cannot roll back, and ValueError.
    """
    target = LlamaTarget(load_model(path, settings), settings)
    try:
        return LlamaStep(target, name or path.stem, n_ranked, n_vocab)
    except (EdgeSpecError, ValueError):
        target.close()
        raise


class LlamaStep:
    """`edgespec.spec.step.StepModel` over a target that nobody else uses; it owns it.

    n_ranked: next tokens that a run returns, at most. n_vocab: ids that the target of the whole engine has, 0 for as
    many as the draft. A draft with more ids never proposes those beyond; of one with fewer, see STAND_IN.
    Raises UnsupportedModel for a model that cannot roll back, ValueError for other arguments that cannot be.
    """

    def __init__(self, target: LlamaTarget, name: str, n_ranked: int = N_RANKED, n_vocab: int = 0) -> None:
        able = target.capabilities
        if not able.can_rollback:
            raise UnsupportedModel(
                f"cannot draft with {name}",
                "it keeps a running state, which cannot be taken back when a guess was wrong",
                "choose a draft with a KV cache, or --draft off",
            )
        if n_ranked < 1 or n_vocab < 0:
            raise ValueError(f"{n_ranked} ranked tokens of {n_vocab}")
        self._target = target
        self._name = name
        self._n_own = able.n_vocab
        self._n_common = min(able.n_vocab, n_vocab or able.n_vocab)
        self._ranker = Ranker(self._n_common, n_ranked)
        self._limits = StepLimits(
            n_ctx=able.n_ctx,
            n_vocab=n_vocab or able.n_vocab,
            n_ranked=self._ranker.n_ranked,
            max_rows=able.max_rows,
            max_chunk=able.max_chunk,
            branches=False,
        )
        self._cells = np.zeros(able.n_ctx, np.int32)  # what was written into each, for reading it again
        self._n_cells = 0
        self._certain = np.ones(able.max_rows, np.float32)

    @property
    def name(self) -> str:
        return self._name

    @property
    def limits(self) -> StepLimits:
        return self._limits

    def run(self, tokens: IntArray, start: int, parents: IntArray | None = None) -> Ranked:
        """See StepModel. One pass of as many rows as tokens; the logits of a row differ in their last bits between
        passes of other widths.
        """
        n = len(tokens)
        if not 1 <= n <= self._limits.max_rows:
            raise ValueError(f"a run of {n} rows of {self._limits.max_rows}")
        if parents is not None and parents.tolist() != list(range(start - 1, start + n - 1)):
            raise ValueError("this draft has no branches: each row continues the cell before it")
        self._write(tokens, start)
        self._read_up_to(start)
        own = self._cells[start : start + n]
        request = VerifyRequest(SEQUENCE, own[:1], chain(own[1:], self._certain[1:n]), canonical=False)
        rows = self._target.verify([request], n)[0]
        self._target.commit(SEQUENCE, Commit(np.arange(n - 1, dtype=np.int32), _followed(own[1:])))
        self._n_cells = start + n
        return self._ranker.rank([rows.logits(row)[: self._n_common] for row in range(n)])

    def read(self, tokens: IntArray, start: int) -> None:
        if not 1 <= len(tokens) <= self._limits.max_chunk:
            raise ValueError(f"a chunk of {len(tokens)} tokens of {self._limits.max_chunk}")
        self._write(tokens, start)
        self._read_up_to(start)
        self._target.extend(SEQUENCE, self._cells[start : start + len(tokens)])
        self._n_cells = start + len(tokens)

    def keep(self, cells: IntArray, start: int) -> None:
        """The only branch there is: the cells from `start` on, in their order. Costs nothing until the next run."""
        if cells.tolist() != list(range(start, start + len(cells))) or not 0 <= start <= self._n_cells - len(cells):
            raise ValueError(f"{cells.tolist()} is no branch from cell {start} on of {self._n_cells}")
        self._n_cells = start + len(cells)

    def close(self) -> None:
        self._target.close()

    def _write(self, tokens: IntArray, start: int) -> None:
        """Note the tokens of the cells from `start` on, which become known when they are read. Raises ValueError."""
        end = start + len(tokens)
        if not 0 <= start <= self._n_cells or end > self._limits.n_ctx:
            raise ValueError(f"cells {start} to {end} of {self._limits.n_ctx}, of which {self._n_cells} are known")
        if not 0 <= tokens.min() <= tokens.max() < self._limits.n_vocab:
            raise ValueError(f"token ids beyond a vocabulary of {self._limits.n_vocab}")
        self._cells[start:end] = np.where(tokens < self._n_own, tokens, STAND_IN)
        self._n_cells = start

    def _read_up_to(self, n_cells: int) -> None:
        """Let the library's cache hold exactly the first cells: what a rewind, or a pass that failed, has lost is read
        again.
        """
        n_kept = self._target.rewind(SEQUENCE, n_cells)
        for at in range(n_kept, n_cells, self._limits.max_chunk):
            self._target.extend(SEQUENCE, self._cells[at : min(at + self._limits.max_chunk, n_cells)])


def _followed(tokens: IntArray) -> IntArray:
    """The tokens and one more, which a commit wants and nobody reads."""
    followed = np.zeros(len(tokens) + 1, np.int32)
    followed[:-1] = tokens
    return followed
