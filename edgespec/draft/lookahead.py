"""Lookahead decoding: the target itself writes drafts, in rows of its pass that nobody else needed.

Contract: a window of parallel guesses (`draft.window`) goes into the pass as pinned nodes. What the target says after
its last level refines it, and what its columns have become is kept in a pool of pieces (Fu et al., 2024); pieces that
begin with the last committed token hang beside the window as ordinary guesses. A window takes (level - 1) * columns
rows in every pass, so it pays only where rows cost next to nothing, and decides nothing: any tree is exact.
What it reads is the greedy choice of each row, also under sampling: that is a guess like any other.

A plan for one leaf leaves room for the window's first level only: then it is a chain, every token of which is replaced
by what the target says after the token before it, which is Jacobi's iteration, and the pool is neither filled nor used.
A window too wide for a plan is narrowed. In a pass without its nodes the window moves along with the text unread. The
greedy choice of a row costs some 15 us for 49 thousand tokens; rows are read in `observe` only.
Calls for a sequence that has not begun raise KeyError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random

import numpy as np

from edgespec.draft.grown import Draft
from edgespec.draft.pool import NgramPool
from edgespec.draft.rates import Rates
from edgespec.draft.window import Cell, Window
from edgespec.spec.ports import Commit, IntArray, Needs, Plan, Rows, SequenceId
from edgespec.spec.tree import EMPTY, DraftTree

# Pieces kept for each first token, and the most of one pass.
_PER_KEY = 8

# Tokens of the prompt's end from which a guess is taken where there is nothing better.
_N_CONTEXT = 256

# Situations: a piece's first token by its rank, its further tokens by their depth, the window's by level 0 or not.
_N_RANKS, _N_DEPTHS = 4, 4
_FIRST_RATES = (0.35, 0.15, 0.1, 0.07)
_NEXT_RATES = (0.5, 0.55, 0.6, 0.65)
_LEVEL_0, _LEVEL_UP = _N_RANKS + _N_DEPTHS, _N_RANKS + _N_DEPTHS + 1
_WINDOW_RATES = (0.1, 0.2)


@dataclass(slots=True)
class _Round:
    """A proposal whose verdict is awaited. ends: for each column the node after which the target's choice is wanted."""

    draft: Draft
    ends: list[int]
    is_chain: bool


@dataclass(slots=True)
class _Text:
    """One sequence. followers: for each of its tokens what came after it last, for guesses out of nothing."""

    window: Window
    followers: dict[int, int]
    last: int
    round: _Round | None = None


@dataclass(slots=True)
class _Trie:
    """A draft in which equal tokens after the same node are one node."""

    draft: Draft = field(default_factory=Draft)
    nodes: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, parent: int, token: int, rate: float, situation: int) -> int:
        found = self.nodes.get((parent, token))
        if found is None:
            above = self.draft.survival[parent] if parent >= 0 else 1.0
            found = self.nodes[parent, token] = self.draft.add(token, parent, above * rate, situation)
        return found


class LookaheadDrafter:
    """`window`: columns. `level`: tokens of a piece, its first one included. `pool_size`: pieces kept, of all texts."""

    name = "lookahead"
    needs = Needs.TOKENS | Needs.ROWS

    def __init__(self, window: int = 5, level: int = 4, pool_size: int = 4096) -> None:
        if window < 1 or level < 2 or pool_size < 0:
            raise ValueError(f"a window of {window} columns, level {level} and a pool of {pool_size}")
        self.pool = NgramPool(_PER_KEY, pool_size)
        self._n_columns = window
        self._n_levels = level - 1
        self._texts: dict[SequenceId, _Text] = {}
        self._rates = Rates((*_FIRST_RATES, *_NEXT_RATES, *_WINDOW_RATES))

    def begin(self, sequence: SequenceId, prompt: IntArray) -> None:
        tokens: list[int] = prompt.tolist() or [0]
        followers = dict(pairwise(tokens))
        window = Window(self._n_columns, self._n_levels, _guesser(followers, tokens[-_N_CONTEXT:]), tokens[-1])
        self._texts[sequence] = _Text(window, followers, tokens[-1])

    def propose(self, sequence: SequenceId, plan: Plan) -> DraftTree:
        """Pieces from the pool and the window, or the window's first level where one leaf is all there may be."""
        text = self._texts[sequence]
        text.round = None
        if plan.max_nodes <= 0 or plan.max_leaves <= 0:
            return EMPTY
        pieces = [] if plan.max_leaves == 1 else self.pool.after(text.last)
        depth = 1 if plan.max_leaves == 1 else text.window.depth
        n_columns = _fitting(plan, depth, self._n_columns, len(pieces[0]) if pieces else 0)
        trie = _Trie()
        ends = self._place_window(trie, text.window, n_columns, depth)
        pinned = len(trie.draft.tokens)
        self._place_pieces(trie, pieces, plan, n_leaves=n_columns if depth > 1 else min(1, n_columns))
        text.round = _Round(trie.draft, ends, plan.max_leaves == 1)
        tree = trie.draft.tree()
        return replace(tree, pinned=np.arange(len(tree)) < pinned) if pinned else tree

    def behind(self, sequence: SequenceId) -> int:
        return 0

    def anticipate(self, sequence: SequenceId, tree: DraftTree) -> None:
        """Nothing to prepare: the work is done in the target's own pass."""

    def observe(self, sequence: SequenceId, commit: Commit, rows: Rows, nodes: IntArray) -> None:
        """Read the target's choices at the window's ends, and move on with the text."""
        text = self._texts[sequence]
        emitted: list[int] = commit.tokens.tolist()
        done, text.round = text.round, None
        chosen: list[int] = []
        if done is not None:
            done.draft.learn(self._rates, emitted)
            chosen = _choices(done.ends, nodes.tolist(), rows)
        text.followers.update(zip([text.last, *emitted], emitted, strict=False))
        text.last = emitted[-1]
        if done is None or not chosen:
            text.window.slide(len(emitted))
        elif done.is_chain:
            text.window.iterate(chosen, len(emitted))
        else:
            is_full = text.window.is_full
            pieces = text.window.advance(chosen, len(emitted))
            for piece in pieces if is_full else ():
                self.pool.add(piece)

    def end(self, sequence: SequenceId) -> None:
        self._texts.pop(sequence, None)

    def guesses(self, sequence: SequenceId) -> tuple[tuple[int, ...], ...]:
        """The window's columns."""
        return self._texts[sequence].window.columns

    def _place_window(self, trie: _Trie, window: Window, n_columns: int, depth: int) -> list[int]:
        rates = self._rates.values
        placed: dict[Cell | None, int] = {None: -1}
        for cell, above, token in window.cells(n_columns, depth):
            situation = _LEVEL_UP if cell[0] else _LEVEL_0
            placed[cell] = trie.add(placed[above], token, rates[situation], situation)
        return [placed[depth - 1, column] for column in range(n_columns)]

    def _place_pieces(self, trie: _Trie, pieces: Sequence[Sequence[int]], plan: Plan, n_leaves: int) -> None:
        """As many whole pieces as fit, the newest first; each has a leaf of its own at most."""
        rates, room = self._rates.values, plan.max_leaves - n_leaves
        for rank, piece in enumerate(pieces[: max(0, room)]):
            if len(trie.draft.tokens) + len(piece) > plan.max_nodes:
                return
            node, situation = -1, min(rank, _N_RANKS - 1)
            for depth, token in enumerate(piece):
                node = trie.add(node, token, rates[situation], situation)
                situation = _N_RANKS + min(depth, _N_DEPTHS - 1)


def _guesser(followers: dict[int, int], context: list[int]) -> Callable[[int], int]:
    """What came after a token last, else some token of the context; the same ones every time the text is the same."""
    random = Random(len(context))

    def guess(token: int) -> int:
        follower = followers.get(token)
        return random.choice(context) if follower is None else follower

    return guess


def _fitting(plan: Plan, depth: int, n_columns: int, n_piece: int) -> int:
    """Columns that fit, with room for one piece beside them if there is one."""
    if depth == 1:
        return min(n_columns, plan.max_nodes)
    n_leaves = plan.max_leaves - (1 if n_piece else 0)
    return max(0, min(n_columns, n_leaves, (plan.max_nodes - n_piece) // depth))


def _choices(ends: Sequence[int], nodes: Sequence[int], rows: Rows) -> list[int]:
    """What the target says after each of the own nodes `ends`; nothing if one of them was cut."""
    places = [nodes[end] if end < len(nodes) else -1 for end in ends]
    if min(places, default=-1) < 0:
        return []
    found = {place: int(rows.logits(place + 1).argmax()) for place in set(places)}
    return [found[place] for place in places]
