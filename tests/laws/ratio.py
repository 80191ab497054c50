"""Ratio verification of the real verifiers on table models, every draw of draft and verifier enumerated."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import replace
from functools import cache

import numpy as np

from edgespec.spec.draws import Dense, MakeDraws
from edgespec.spec.law import Law, SamplingSettings, Sparse
from edgespec.spec.ports import Commit, FloatArray, TokenLaw, Verifier
from edgespec.spec.tree import DraftMode, DraftTree, check_tree, tree_of
from tests.laws.harness import Chance, Path, Round, TokenLawOf, Vector, outcomes

PROMPT = [2, 0]
MakeVerifier = Callable[[MakeDraws], Verifier]
MakeTree = Callable[[Chance], DraftTree]


class TableLaw(Law):
    """A law that is a table over texts; what rows hold does not matter."""

    def __init__(self, p: TokenLawOf) -> None:
        super().__init__(SamplingSettings(temperature=1.0))
        self._p = p

    def probabilities(self, logits: FloatArray, history: Seq[int]) -> Sparse:
        return sparse(self._p(tuple(history[len(PROMPT) :])))


@cache
def _sparse(values: tuple[float, ...]) -> Sparse:
    p = np.array(values)
    ids = np.flatnonzero(p)
    return Sparse(ids.astype(np.int32), p[ids])


def sparse(p: Vector) -> Sparse:
    return _sparse(tuple(p.tolist()))


class NoRows:
    def __init__(self, n_vocab: int) -> None:
        self._row = np.zeros(n_vocab, np.float32)

    def logits(self, row: int) -> FloatArray:
        return self._row


class ChanceDraws:
    def __init__(self, chance: Chance) -> None:
        self._chance = chance

    def flip(self, p: float) -> bool:
        return self._chance.flip(p)

    def pick(self, p: Dense) -> int:
        return self._chance.pick(p)


def walked(
    make: MakeVerifier, tree: DraftTree, p: TokenLawOf, chance: Chance, limit: int = 99, end: int = -1
) -> Commit:
    law: TokenLaw = TableLaw(p)
    verifier = make(lambda _seed, _position: ChanceDraws(chance))
    return verifier.walk(tree, NoRows(len(p(()))), law, PROMPT, limit, frozenset({end}))


def ratio_round(make: MakeVerifier, draft: MakeTree, p: TokenLawOf, limit: int = 99, end: int = -1) -> Round:
    def play(chance: Chance) -> Path:
        return tuple(walked(make, draft(chance), p, chance, limit, end).tokens.tolist())

    return play


def expected_accepted(make: MakeVerifier, draft: MakeTree, p: TokenLawOf) -> float:
    """Tokens accepted on average, computed."""

    def play(chance: Chance) -> Path:
        return (len(walked(make, draft(chance), p, chance).path),)

    return sum(n * weight for (n,), weight in outcomes(play))


def drawn(parents: list[int], q: TokenLawOf, mode: DraftMode) -> MakeTree:
    """A tree of this shape, its siblings drawn from q: without replacement if SAMPLED, else independently."""

    def draft(chance: Chance) -> DraftTree:
        texts: dict[int, Path] = {-1: ()}
        left: dict[int, Vector] = {}
        tokens: list[int] = []
        for node, parent in enumerate(parents):
            law = left.get(parent, q(texts[parent]))
            token = chance.pick(law)
            tokens.append(token)
            texts[node] = (*texts[parent], token)
            left[parent] = law if mode is DraftMode.REPEATED else without(law, token)
        tree = tree_of(tokens, parents, [0.5] * len(parents), mode=mode)
        laws = tuple(sparse(q(texts[at])) if at in parents else None for at in range(-1, len(parents)))
        tree = replace(tree, laws=laws)
        check_tree(tree, len(q(())))
        return tree

    return draft


def without(law: Vector, token: int) -> Vector:
    rest: Vector = law.copy()
    rest[token] = 0.0
    rest /= float(rest.sum()) or 1.0  # nothing is left of a law that knows one token
    return rest


def given(tree: DraftTree) -> MakeTree:
    return lambda _chance: tree
