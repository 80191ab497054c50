"""A drafter that is often right, targets with planted defects, and answers made by the loop: for the replay's tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgespec.events import RoundReport
from edgespec.replay import Run
from edgespec.spec.policy import FixedPolicy
from edgespec.spec.ports import (
    Capabilities,
    Commit,
    Drafter,
    FloatArray,
    IntArray,
    Needs,
    Plan,
    Rows,
    Target,
    TokenLaw,
    VerifyRequest,
)
from edgespec.spec.round import Drafting, Loop
from edgespec.spec.sequence import SequenceState
from edgespec.spec.tree import EMPTY, DraftTree, tree_of
from edgespec.spec.verify import PathVerifier


class Forger:
    """Knows what the plain answer said and drafts it with mistakes: a chain, or beside a wrong first branch."""

    name = "forger"
    needs = Needs.TOKENS

    def __init__(self, truth: Sequence[int], n_vocab: int, seed: int, branches: bool = False) -> None:
        self._truth = truth
        self._n_vocab = n_vocab
        self._random = np.random.default_rng(seed)
        self._branches = branches
        self._n_seen = 0

    def begin(self, sequence: int, prompt: IntArray) -> None: ...

    def propose(self, sequence: int, plan: Plan) -> DraftTree:
        ahead = self._truth[self._n_seen : self._n_seen + int(self._random.integers(0, 7))]
        tokens = [token if self._random.random() < 0.8 else (token + 1) % self._n_vocab for token in ahead]
        if not tokens:
            return EMPTY
        if not self._branches:
            return tree_of(tokens, range(-1, len(tokens) - 1), [0.9] * len(tokens))
        wrong = (tokens[0] + 5) % self._n_vocab
        return tree_of([wrong, *tokens], [-1, -1, *range(1, len(tokens))], [0.95] + [0.9] * len(tokens))

    def behind(self, sequence: int) -> int:
        return 0

    def anticipate(self, sequence: int, tree: DraftTree) -> None: ...

    def observe(self, sequence: int, commit: Commit, rows: Rows, nodes: IntArray) -> None:
        self._n_seen += len(commit.tokens)

    def end(self, sequence: int) -> None: ...


class Wrapped:
    """A target that hands everything on to another one."""

    def __init__(self, inner: Target) -> None:
        self.inner = inner

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    def extend(self, sequence: int, tokens: IntArray) -> None:
        self.inner.extend(sequence, tokens)

    def verify(self, requests: Sequence[VerifyRequest], width: int) -> list[Rows]:
        return self.inner.verify(requests, width)

    def commit(self, sequence: int, commit: Commit) -> IntArray:
        return self.inner.commit(sequence, commit)

    def rewind(self, sequence: int, length: int) -> int:
        return self.inner.rewind(sequence, length)

    def length(self, sequence: int) -> int:
        return self.inner.length(sequence)

    def release(self, sequence: int) -> None:
        self.inner.release(sequence)


class StaleCell(Wrapped):
    """Planted: where a draft goes on past the accepted part, the commit keeps one rejected cell too."""

    def verify(self, requests: Sequence[VerifyRequest], width: int) -> list[Rows]:
        self._tree = requests[0].tree
        return self.inner.verify(requests, width)

    def commit(self, sequence: int, commit: Commit) -> IntArray:
        path = commit.path.tolist()
        last = path[-1] if path else -1
        rejected = np.flatnonzero(self._tree.parents == last)[:1].astype(np.int32)
        kept = np.concatenate([commit.path, rejected])
        tokens = np.concatenate([self._tree.tokens[kept], commit.tokens[-1:]])
        return self.inner.commit(sequence, Commit(kept, tokens))


class LostCell(Wrapped):
    """Planted: a commit forgets the last accepted cell, so that all that follows sits one position too early."""

    def commit(self, sequence: int, commit: Commit) -> IntArray:
        self.inner.commit(sequence, Commit(commit.path[:-1], commit.tokens[: len(commit.path[:-1]) + 1]))
        self.inner.rewind(sequence, self.inner.length(sequence))
        return commit.tokens[-1:]


class OffByOneRows:
    """A node's row is that of the position before."""

    def __init__(self, inner: Rows) -> None:
        self._inner = inner

    def logits(self, row: int) -> FloatArray:
        return self._inner.logits(max(0, row - 1))


class OffByOne(Wrapped):
    """Planted: the rows of a draft are read one position too early."""

    def verify(self, requests: Sequence[VerifyRequest], width: int) -> list[Rows]:
        return [OffByOneRows(rows) for rows in self.inner.verify(requests, width)]


def answer(
    target: Target,
    law: TokenLaw,
    prompt: Sequence[int],
    n_output: int,
    drafters: tuple[Drafter, ...] = (),
    widths: tuple[int, ...] = (),
) -> Run:
    """Decoded as the engine does: the prompt in chunks, then rounds. `widths` makes it an exact answer."""
    step = target.capabilities.max_chunk
    for start in range(0, len(prompt) - 1, step):
        target.extend(0, np.array(prompt[start : min(start + step, len(prompt) - 1)], np.int32))
    state = SequenceState.start(0, list(prompt), law, n_output, frozenset(), widths)
    loop = Loop(target, FixedPolicy(max_nodes=8, max_leaves=4), PathVerifier(), clock=lambda: 0.0)
    rounds: list[RoundReport] = []
    while state.finish is None:
        rounds += loop.run([Drafting.of(state, drafters)])
    target.release(0)
    return Run(tuple(prompt), tuple(rounds), tuple(state.tokens[len(prompt) :]))
