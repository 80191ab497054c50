from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from edgespec.errors import EngineFailure
from edgespec.spec.law import Law, SamplingSettings, Sparse
from edgespec.spec.ratio import VERIFIERS, CannotVerify, RejectionVerifier, TraversalVerifier
from edgespec.spec.tree import EMPTY, DraftMode, DraftTree, tree_of

LAW = Law(SamplingSettings(temperature=1.0, seed=5))


class Rows:
    def logits(self, row: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        return np.log(np.array([0.5, 0.3, 0.2], np.float32))


def tree(parents: list[int], mode: DraftMode) -> DraftTree:
    made = tree_of([node % 3 for node in range(len(parents))], parents, [0.5] * len(parents), mode=mode)
    if mode in (DraftMode.POINT, DraftMode.COUPLED):
        return made
    law = Sparse(np.arange(3, dtype=np.int32), np.full(3, 1 / 3))
    return replace(made, laws=tuple(law if at in parents else None for at in range(-1, len(parents))))


CHAIN, FORK = [-1, 0], [-1, -1]


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("rejection", ["POINT chain", "SAMPLED chain"]),
        ("block", ["POINT chain", "SAMPLED chain"]),
        ("sibling-set", ["POINT chain", "POINT fork"]),
        ("specinfer", ["REPEATED chain", "REPEATED fork"]),
        ("recursive", ["POINT chain", "POINT fork", "SAMPLED chain", "SAMPLED fork"]),
        ("traversal", ["POINT chain", "POINT fork", "SAMPLED chain", "SAMPLED fork"]),
    ],
)
def test_each_takes_what_it_treats_exactly_and_refuses_the_rest(name: str, taken: list[str]) -> None:
    verifier = next(make for make in VERIFIERS if make.name == name)()
    found: list[str] = []
    for mode in DraftMode:
        for shape, parents in (("chain", CHAIN), ("fork", FORK)):
            with suppress(CannotVerify):
                verifier.walk(tree(parents, mode), Rows(), LAW, [0], 9, frozenset())
                found.append(f"{mode.name} {shape}")
    assert found == taken
    verifier.walk(replace(EMPTY, mode=DraftMode.COUPLED), Rows(), LAW, [0], 9, frozenset())


def test_a_refusal_is_an_error_of_the_engine() -> None:
    assert issubclass(CannotVerify, EngineFailure)
    with pytest.raises(CannotVerify, match="mode COUPLED; use '--verify path'"):
        RejectionVerifier().walk(tree(CHAIN, DraftMode.COUPLED), Rows(), LAW, [0], 9, frozenset())


def test_a_drawn_tree_without_its_laws_is_refused() -> None:
    silent = replace(tree(CHAIN, DraftMode.SAMPLED), laws=())
    with pytest.raises(CannotVerify, match="drawn from"):
        RejectionVerifier().walk(silent, Rows(), LAW, [0], 9, frozenset())


def test_a_walk_emits_at_least_one_token() -> None:
    with pytest.raises(ValueError, match="limit is 0"):
        RejectionVerifier().walk(EMPTY, Rows(), LAW, [0], 0, frozenset())


def test_a_law_without_probabilities_is_refused() -> None:
    class Chooses:
        def choose(self, logits: object, history: object) -> int:
            return 0

    with pytest.raises(TypeError, match="probabilities"):
        RejectionVerifier().walk(EMPTY, Rows(), Chooses(), [0], 1, frozenset())


def test_the_limit_and_the_end_cut_a_path() -> None:
    certain = tree_of([0, 0, 0], [-1, 0, 1], [1.0] * 3)
    greedy = Law(SamplingSettings())
    whole = TraversalVerifier().walk(certain, Rows(), greedy, [1], 9, frozenset())
    assert (whole.path.tolist(), whole.tokens.tolist()) == ([0, 1, 2], [0, 0, 0, 0])
    cut = TraversalVerifier().walk(certain, Rows(), greedy, [1], 2, frozenset())
    assert (cut.path.tolist(), cut.tokens.tolist()) == ([0], [0, 0])
    ended = TraversalVerifier().walk(certain, Rows(), greedy, [1], 9, frozenset({0}))
    assert (ended.path.tolist(), ended.tokens.tolist()) == ([], [0])
