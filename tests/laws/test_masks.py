"""Rounds are exact under a mask too: the law that they emit is that of plain decoding with the mask, by enumeration."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from edgespec.spec.allowed import AllowedTokens, Mask, allow
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.ports import FloatArray
from edgespec.spec.tree import DraftTree, tree_of
from edgespec.spec.verify import PathVerifier
from tests.laws.harness import Chance, Path, Round, TokenLawOf, Vector, deviation, shapes, shuffled
from tests.laws.test_enumeration import (
    CAUGHT,
    EXACT,
    PROMPT,
    SETTINGS,
    EnumeratedLaw,
    TableRows,
    fits,
    labelled,
    table,
)
from tests.spec.plain_law import reference_probabilities


def masks(n_vocab: int, seed: int) -> Callable[[Path], list[int]]:
    """A random language: after every output at least token 0 or 1, which no settings ban together, and any others."""

    @cache
    def tokens(output: Path) -> list[int]:
        rng = np.random.default_rng([seed, 77, n_vocab, *output])
        found = set(np.flatnonzero(rng.random(n_vocab) < 0.5).tolist()) | {0, 1}
        if rng.random() < 0.3:
            found = {0}  # forced
        return sorted(found)

    return tokens


def finite(logits: Callable[[Path], FloatArray]) -> Callable[[Path], FloatArray]:
    """The same table, where tokens 0 and 1 are never impossible: a mask may leave nothing else."""

    @cache
    def row(text: Path) -> FloatArray:
        values: FloatArray = logits(text).copy()
        values[:2] = np.maximum(values[:2], np.float32(-3.0))
        return values

    return row


def plain(
    logits: Callable[[Path], FloatArray], settings: SamplingSettings, tokens: Callable[[Path], list[int]]
) -> TokenLawOf:
    """Plain decoding by the plain twin of the law: what is not allowed is banned."""

    @cache
    def law(text: Path) -> Vector:
        row = logits(text)
        others = tuple(token for token in range(len(row)) if token not in tokens(text))
        banned = replace(settings, banned=(*settings.banned, *others))
        return reference_probabilities(row, banned, [*PROMPT, *text])

    return law


def masked_round(
    tree: DraftTree, logits: Callable[[Path], FloatArray], settings: SamplingSettings, mask: Mask, end: int = -1
) -> Round:
    rows, law = TableRows(tree, logits), Law(settings, mask)

    def play(chance: Chance) -> Path:
        commit = PathVerifier().walk(tree, rows, EnumeratedLaw(law, chance), PROMPT, 99, frozenset({end}))
        return tuple(commit.tokens.tolist())

    return play


def following(tokens: Callable[[Path], list[int]], n_vocab: int) -> Mask:
    def mask(history: Seq[int]) -> AllowedTokens:
        return allow(tokens(tuple(history[len(PROMPT) :])), n_vocab)

    return mask


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("n_vocab", [3, 4])
def test_path_verification_under_a_mask_is_exact(n_vocab: int, settings: SamplingSettings) -> None:
    rng = np.random.default_rng(n_vocab)
    for seed, shape in enumerate(shape for shape in shapes(5, 3) if fits(shape, n_vocab)):
        logits, tokens = finite(table(n_vocab, seed)), masks(n_vocab, seed)
        tree = labelled(shuffled(shape, rng), n_vocab, rng)
        play = masked_round(tree, logits, settings, following(tokens, n_vocab), end=seed % n_vocab)
        assert deviation(play, plain(logits, settings, tokens), horizon=4, end=seed % n_vocab) <= EXACT, shape


def test_control_a_mask_that_does_not_see_the_draft_is_caught() -> None:
    settings = SamplingSettings(temperature=1.0)
    logits, tokens = finite(table(4, 1)), masks(4, 1)
    tree = tree_of([0, 0, 1, 1], [-1, 0, 0, -1], [0.5] * 4)
    truth = plain(logits, settings, tokens)
    blind = masked_round(tree, logits, settings, lambda _history: allow(tokens(()), 4))
    assert deviation(blind, truth, horizon=3) > CAUGHT
    assert deviation(masked_round(tree, logits, settings, following(tokens, 4)), truth, horizon=3) <= EXACT
