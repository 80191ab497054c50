"""Finds which verify widths give bitwise equal logits: the classes that exact mode stays inside.

llama.cpp picks other kernels for other batch widths, so rows differ in their last bits from width to width; inside a
class they do not. Works on any target; knows nothing of how it computes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence as Seq

import numpy as np

from edgespec.spec.ports import Commit, IntArray, Target, VerifyRequest
from edgespec.spec.tree import DraftTree, chain

# Contexts that lie just below a multiple of 256 cells, where the attention's extent changes while the rows are read.
CONTEXTS = (232, 744)
MAX_WIDTH = 16
N_ROWS = 48

Classes = tuple[tuple[int, ...], ...]
PROBE_SEQUENCE = -1


def find_classes(
    target: Target, text: IntArray, contexts: Seq[int] = CONTEXTS, n_rows: int = N_ROWS, max_width: int = MAX_WIDTH
) -> Classes:
    """Classes of widths 1..max_width whose rows agree bit for bit at every context; largest class first.

    text: int32 tokens to read, at least max(contexts) + n_rows + max_width of them.
    """
    widest = min(max_width, target.capabilities.max_rows)
    fits = [c for c in contexts if c + n_rows + widest <= target.capabilities.n_ctx] or [0]
    prints: dict[int, list[str]] = {width: [] for width in range(1, widest + 1)}
    try:
        for context in fits:
            for width, found in prints.items():
                _read_to(target, text, context)
                found.append(_fingerprint(target, text, context, width, n_rows))
    finally:
        target.release(PROBE_SEQUENCE)
    groups: dict[tuple[str, ...], list[int]] = {}
    for width, found in prints.items():
        groups.setdefault(tuple(found), []).append(width)
    return tuple(sorted((tuple(g) for g in groups.values()), key=lambda g: (-len(g), g)))


def best_class(classes: Classes) -> tuple[int, ...]:
    """The class to be exact in: the one with most widths, so that least is padded."""
    return classes[0]


def _fingerprint(target: Target, text: IntArray, context: int, width: int, n_rows: int) -> str:
    """Hash of the logits rows at positions context .. context + n_rows - 1, read `width` at a time."""
    digest = hashlib.sha256()
    for start in range(context, context + n_rows, width):
        request = VerifyRequest(PROBE_SEQUENCE, text[start : start + 1], _line(text[start + 1 : start + width]), False)
        rows = target.verify([request], width)[0]
        for row in range(min(width, context + n_rows - start)):
            digest.update(rows.logits(row).tobytes())
        target.commit(PROBE_SEQUENCE, _accept_all(text[start + 1 : start + width + 1]))
    return digest.hexdigest()


def _line(tokens: IntArray) -> DraftTree:
    return chain(tokens, np.ones(len(tokens), np.float32))


def _read_to(target: Target, text: IntArray, context: int) -> None:
    """Bring the cache to exactly the first `context` tokens, keeping what is there."""
    step = target.capabilities.max_chunk
    for start in range(target.rewind(PROBE_SEQUENCE, context), context, step):
        target.extend(PROBE_SEQUENCE, text[start : min(start + step, context)])


def _accept_all(tokens: IntArray) -> Commit:
    return Commit(np.arange(len(tokens) - 1, dtype=np.int32), tokens)
