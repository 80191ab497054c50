"""How much of a draft is the target's own text. Knows nothing of models, drafters or how rows were computed.

The path verifier asks the target's own sampler for each token and follows the draft while it agrees. What it emits is a
function of the sampler and the logits alone, so every kind of tree, however it was chosen, pruned or ordered, is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np

from edgespec.spec.ports import Commit, IntArray, Rows, TokenLaw
from edgespec.spec.tree import DraftTree, child_table

_NO_PATH: IntArray = np.empty(0, np.int32)


class Prefix(Sequence[int]):
    """`base` and then `tail`, seen as one sequence without copying either; later changes of both show through."""

    __slots__ = ("_base", "_tail")

    def __init__(self, base: Sequence[int], tail: Sequence[int]) -> None:
        self._base = base
        self._tail = tail

    def __len__(self) -> int:
        return len(self._base) + len(self._tail)

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> list[int]: ...

    def __getitem__(self, index: int | slice) -> int | list[int]:
        """A slice costs what it returns, not what lies before it."""
        n_base = len(self._base)
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return [self[place] for place in range(start, stop, step)]
            return [*self._base[start:stop], *self._tail[max(0, start - n_base) : max(0, stop - n_base)]]
        place = range(len(self))[index]  # turns a negative index round and refuses one out of range
        return self._base[place] if place < n_base else self._tail[place - n_base]


class PathVerifier:
    """ports.Verifier: descend while the law's own choice is among the children, then emit that choice as the bonus."""

    def walk(
        self,
        tree: DraftTree,
        rows: Rows,
        law: TokenLaw,
        history: Sequence[int],
        limit: int,
        end_tokens: frozenset[int],
    ) -> Commit:
        """The verdict on `tree`, hanging from the last token of `history`; every mode is treated exactly.

        Reads only the rows it walks through. An accepted node that ends the walk (the `limit`-th token or an end
        token) is emitted but not on the path, so there is always one token more than nodes. Raises ValueError if
        `limit` is below 1, and what `law.choose` raises.
        """
        if limit < 1:
            raise ValueError(f"limit is {limit}, but a walk emits at least one token")
        if not len(tree):  # most rounds of most answers
            return Commit(_NO_PATH, np.array([law.choose(rows.logits(0), history)], dtype=np.int32))
        children = child_table(tree)
        path: list[int] = []
        tokens: list[int] = []
        text = Prefix(history, tokens)
        node: int | None = -1
        while node is not None:
            token = law.choose(rows.logits(node + 1), text)
            tokens.append(token)
            node = None if len(tokens) == limit or token in end_tokens else children.get((node, token))
            if node is not None:
                path.append(node)
        return Commit(np.array(path, dtype=np.int32), np.array(tokens, dtype=np.int32))
