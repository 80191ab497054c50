"""The law that rounds emit, exactly. The controls prove that the harness would see a biased scheme."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest

from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.ports import TokenLaw
from edgespec.spec.tree import DraftTree, check_tree, tree_of
from edgespec.spec.verify import PathVerifier
from tests.laws.gtest import deviates
from tests.laws.harness import Chance, Path, Round, TokenLawOf, Vector, deviation, shapes, shuffled
from tests.laws.schemes import (
    coupled_round,
    greedy_draft,
    one_hot,
    rejection_round,
    same_noise_pairs,
    sampled_draft,
    shortened,
)
from tests.spec.plain_law import reference_probabilities
from tests.spec.random_trees import line

FloatArray = npt.NDArray[np.float32]
PROMPT = [2, 0]
EXACT = 1e-12
CAUGHT = 1e-3

SETTINGS = (
    SamplingSettings(temperature=1.0),
    SamplingSettings(temperature=0.7, top_k=3, top_p=0.8),
    SamplingSettings(temperature=1.3, min_p=0.2, logit_bias=((1, 0.5),), banned=(2,)),
    SamplingSettings(temperature=1.0, frequency_penalty=0.9, presence_penalty=0.4, repeat_penalty=1.4),
    SamplingSettings(temperature=0.9, top_p=0.9, presence_penalty=1.5, penalty_last_n=2),
    SamplingSettings(),
)


def table(n_vocab: int, seed: int) -> Callable[[Path], FloatArray]:
    """A model as a table: for every text one row of logits, with zeros (-inf), ties and one-hot rows among them."""

    @cache
    def logits(text: Path) -> FloatArray:
        rng = np.random.default_rng([seed, n_vocab, *text])
        row = rng.normal(size=n_vocab)
        kind = rng.integers(5)
        if kind == 0:
            row[rng.random(n_vocab) < 0.5] = -np.inf
        elif kind == 1:
            row = np.round(row)
        elif kind == 2:
            row[:] = -np.inf
        if not np.isfinite(row[:2]).any():
            row[rng.integers(2)] = 0.0  # none of the settings here bans both, so every row keeps a token
        return row.astype(np.float32)

    return logits


def plain_law(logits: Callable[[Path], FloatArray], settings: SamplingSettings) -> TokenLawOf:
    """What plain decoding draws from after each text, by the plain twin of the law."""

    @cache
    def law(text: Path) -> Vector:
        return reference_probabilities(logits(text), settings, [*PROMPT, *text])

    return law


class TableRows:
    def __init__(self, tree: DraftTree, logits: Callable[[Path], FloatArray]) -> None:
        self._rows = [logits(())]
        self._rows += [logits(tuple(tree.tokens[line(tree, node)].tolist())) for node in range(len(tree))]

    def logits(self, row: int) -> FloatArray:
        return self._rows[row]


class EnumeratedLaw:
    """The real law, with its draw handed to a Chance."""

    def __init__(self, law: Law, chance: Chance) -> None:
        self._law = law
        self._chance = chance

    def choose(self, logits: FloatArray, history: Seq[int]) -> int:
        sparse = self._law.probabilities(logits, history)
        p = np.zeros(len(logits))
        p[sparse.ids] = sparse.p
        return self._chance.pick(p)


class BlindToTheDraft:
    """A law whose penalties do not see accepted draft tokens, as if p had been computed before the penalties."""

    def __init__(self, law: TokenLaw) -> None:
        self._law = law

    def choose(self, logits: FloatArray, history: Seq[int]) -> int:
        return self._law.choose(logits, history[: len(PROMPT)])


def path_round(
    tree: DraftTree,
    logits: Callable[[Path], FloatArray],
    settings: SamplingSettings,
    limit: int = 99,
    end: int = -1,
    blind: bool = False,
) -> Round:
    rows, law = TableRows(tree, logits), Law(settings)

    def play(chance: Chance) -> Path:
        drawn: TokenLaw = EnumeratedLaw(law, chance)
        walked = PathVerifier().walk(
            tree, rows, BlindToTheDraft(drawn) if blind else drawn, PROMPT, limit, frozenset({end})
        )
        return tuple(walked.tokens.tolist())

    return play


def labelled(parents: list[int], n_vocab: int, rng: np.random.Generator) -> DraftTree:
    """Random tokens, different among siblings."""
    labels = {parent: rng.permutation(n_vocab).tolist() for parent in parents}
    tree = tree_of([labels[parent].pop() for parent in parents], parents, [0.5] * len(parents))
    check_tree(tree, n_vocab)
    return tree


def fits(parents: list[int], n_vocab: int) -> bool:
    return all(parents.count(parent) <= n_vocab for parent in parents)


def test_the_shapes_are_all_there() -> None:
    # Ordered forests of n nodes are counted by the Catalan numbers; depth 3 cuts some of those from n = 4 on.
    counts = [sum(len(shape) == n for shape in shapes(6, 6)) for n in range(7)]
    assert counts == [1, 1, 2, 5, 14, 42, 132]
    assert [sum(len(shape) == n for shape in shapes(6, 3)) for n in range(7)] == [1, 1, 2, 5, 13, 34, 89]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("n_vocab", [3, 4, 5])
def test_path_verification_of_every_tree_is_exact(n_vocab: int, settings: SamplingSettings) -> None:
    rng = np.random.default_rng(n_vocab)
    for seed, shape in enumerate(shape for shape in shapes(6, 3) if fits(shape, n_vocab)):
        logits = table(n_vocab, seed)
        tree = labelled(shuffled(shape, rng), n_vocab, rng)
        play, plain = path_round(tree, logits, settings), plain_law(logits, settings)
        assert deviation(play, plain, horizon=4 if n_vocab < 5 else 3) <= EXACT, shape


@pytest.mark.parametrize("settings", SETTINGS)
def test_limits_and_end_tokens_are_exact(settings: SamplingSettings) -> None:
    rng = np.random.default_rng(9)
    for number, shape in enumerate(shapes(4, 3)):
        logits = table(4, seed=number)
        play = path_round(labelled(shape, 4, rng), logits, settings, limit=1 + number % 3, end=number % 4)
        assert deviation(play, plain_law(logits, settings), horizon=3, end=number % 4) <= EXACT


def test_control_p_before_penalties_is_caught() -> None:
    settings = SETTINGS[3]
    logits = table(4, seed=1)
    tree = tree_of([0, 0, 1, 1], [-1, 0, 0, -1], [0.5] * 4)
    plain = plain_law(logits, settings)
    assert deviation(path_round(tree, logits, settings, blind=True), plain, horizon=3) > CAUGHT
    assert deviation(path_round(tree, logits, settings), plain, horizon=3) <= EXACT


def laws(n_vocab: int, seed: int) -> tuple[TokenLawOf, TokenLawOf]:
    """A target's p and a drafter's q, unlike each other."""
    settings = SamplingSettings(temperature=1.0)
    return plain_law(table(n_vocab, seed), settings), plain_law(table(n_vocab, seed + 1000), settings)


def soft_laws() -> tuple[TokenLawOf, TokenLawOf]:
    """The same p and q after every text, none of them one-hot or equal."""
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.25, 0.45, 0.3])
    return (lambda _text: p), (lambda _text: q)


@pytest.mark.parametrize("n_vocab", [3, 4, 5])
def test_token_wise_rejection_is_exact(n_vocab: int) -> None:
    for seed in range(12):
        p, q = laws(n_vocab, seed)
        assert deviation(rejection_round(p, sampled_draft(q, 2)), p, horizon=3) <= EXACT
        greedy = greedy_draft(q, 2, claimed=lambda law, token: one_hot(token, len(law)))
        assert deviation(rejection_round(p, greedy), p, horizon=3) <= EXACT
        causal = shortened(sampled_draft(q, 2), 0.3, keep_last=True)
        assert deviation(rejection_round(p, causal), p, horizon=3) <= EXACT
        assert deviation(coupled_round(p, q, fresh=True), p, horizon=2) <= EXACT


def test_control_greedy_draft_with_soft_q_is_caught() -> None:
    p, q = soft_laws()
    assert deviation(rejection_round(p, greedy_draft(q, 2, claimed=lambda law, _token: law)), p, horizon=3) > CAUGHT


def test_control_drop_after_draw_is_caught() -> None:
    p, q = soft_laws()
    assert deviation(rejection_round(p, shortened(sampled_draft(q, 2), 0.3, keep_last=False)), p, horizon=3) > CAUGHT


def test_control_residual_with_reused_noise_is_caught() -> None:
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.15, 0.2, 0.65])
    reused = coupled_round(lambda _text: p, lambda _text: q, fresh=False)
    assert deviation(reused, lambda _text: p, horizon=1) > CAUGHT


def test_the_pairs_of_one_noise_have_the_right_margins_and_the_right_joint_law() -> None:
    rng = np.random.default_rng(3)
    for n_vocab in (2, 3, 5):
        q, r = rng.dirichlet(np.ones(n_vocab)), rng.dirichlet(np.ones(n_vocab))
        r[0] = 0.0
        r /= r.sum()
        pairs = same_noise_pairs(q, r)
        assert pairs.sum(axis=1) == pytest.approx(q, abs=EXACT)
        assert pairs.sum(axis=0) == pytest.approx(r, abs=EXACT)
        g = -np.log(-np.log(rng.random((40_000, n_vocab))))
        log_r = np.log(r, where=r > 0.0, out=np.full(n_vocab, -np.inf))
        i, j = (np.log(q) + g).argmax(axis=1), (log_r + g).argmax(axis=1)
        assert deviates(np.bincount(i * n_vocab + j, minlength=n_vocab**2), pairs.ravel()) < 4.5
