"""Drives a target by hand: reads, verifies and commits texts that no sampler chose."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from edgespec.backend.llama.layout import n_leaves
from edgespec.spec.ports import Commit, FloatArray, IntArray, Target, VerifyRequest
from edgespec.spec.tree import EMPTY, DraftTree, chain, tree_of

# Two rows of the same text may differ by so much when their cells lie in another order: sums are then rounded
# differently. Measured over 40,000 rows of the toys: at most 0.014 with 32-bit weights. A wrong row differs by 1 to 13.
ROUNDING = 0.05
# Ordinary tokens of the toys; the special ones come after.
N_TOKENS = 256


def ids(tokens: Sequence[int]) -> IntArray:
    return np.array(tokens, np.int32)


def text_of(seed: int, n: int) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(N_TOKENS) for _ in range(n)]


def line(tokens: Sequence[int]) -> DraftTree:
    return chain(ids(tokens), [1.0] * len(tokens))


def tree(tokens: Sequence[int], parents: Sequence[int]) -> DraftTree:
    return tree_of(tokens, parents, [1.0] * len(tokens))


def read(target: Target, text: Sequence[int], sequence: int = 0, chunk: int = 16) -> None:
    """Extend the sequence to `text`, of which its cache must hold the beginning, in chunks that start at multiples."""
    start = target.length(sequence)
    while start < len(text):
        end = min(len(text), (start // chunk + 1) * chunk)
        target.extend(sequence, ids(text[start:end]))
        start = end


def verify(
    target: Target,
    pending: Sequence[int],
    draft: DraftTree = EMPTY,
    width: int = 0,
    sequence: int = 0,
    canonical: bool = False,
) -> list[FloatArray]:
    """Copies of all rows of one pass; `width` 0 pads nothing."""
    request = VerifyRequest(sequence, ids(pending), draft, canonical)
    rows = target.verify([request], width or len(pending) + len(draft))[0]
    return [rows.logits(i).copy() for i in range(1 + len(draft))]


def accept(target: Target, draft: DraftTree, path: Sequence[int], bonus: int, sequence: int = 0) -> IntArray:
    """Commit a path and the token after it; what the target hands back as pending."""
    return target.commit(sequence, Commit(ids(path), ids([*draft.tokens[list(path)].tolist(), bonus])))


def peek(
    target: Target, pending: Sequence[int], draft: DraftTree = EMPTY, width: int = 0, sequence: int = 0
) -> list[FloatArray]:
    """As `verify`, and then the sequence is brought back to where it was. Not for windows that cannot go back."""
    length = target.length(sequence)
    rows = verify(target, pending, draft, width, sequence)
    accept(target, draft, [], 0, sequence)
    assert target.rewind(sequence, length) == length
    return rows


def step(target: Target, token: int, width: int, sequence: int = 0) -> FloatArray:
    """Plain decoding of one given token: its row, in a pass of `width` rows."""
    row = verify(target, [token], EMPTY, width, sequence, canonical=True)[0]
    accept(target, EMPTY, [], 0, sequence)
    return row


def same(a: FloatArray, b: FloatArray) -> bool:
    """Bit for bit."""
    return a.tobytes() == b.tobytes()


def close(a: FloatArray, b: FloatArray) -> bool:
    return float(np.abs(a - b).max()) <= ROUNDING


def random_tree(rng: random.Random, n_nodes: int, max_leaves: int) -> DraftTree:
    """At most so many nodes and leaves, siblings with different tokens; its principal branch comes first."""
    tokens: list[int] = []
    parents: list[int] = []
    n_principal = rng.randrange(n_nodes + 1)
    for drawn in range(n_nodes):
        node = len(tokens)
        parent = node - 1 if drawn < n_principal else rng.randrange(-1, node)
        siblings = [tokens[i] for i, other in enumerate(parents) if other == parent]
        adds_leaf = parent < 0 or bool(siblings)
        token = rng.randrange(N_TOKENS)
        if token not in siblings and not (adds_leaf and n_leaves(parents) == max_leaves):
            tokens.append(token)
            parents.append(parent)
    return tree(tokens, parents)


def random_path(rng: random.Random, draft: DraftTree) -> list[int]:
    """From the root downwards, more often along the first child than along another one."""
    path: list[int] = []
    parents: list[int] = draft.parents.tolist()
    while rng.random() < 0.85:
        children = [node for node, parent in enumerate(parents) if parent == (path[-1] if path else -1)]
        if not children:
            break
        path.append(children[0] if rng.random() < 0.6 else rng.choice(children))
    return path
