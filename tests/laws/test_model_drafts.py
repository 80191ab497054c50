"""Exact laws of what a model drafter says of its draws: right with the truncated q it carries, caught with any other.

SAMPLED: every outcome of the drafter's draws is enumerated, and a token-wise rejection walk over its tree must emit the
target's law. COUPLED: a draft that equals the target wherever it speaks at all is always accepted if its noise is keyed
by target id, and is not if it is keyed by the draft's own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

from edgespec.draft.model import ModelDrafter
from edgespec.draft.sparse import Float64Array
from edgespec.draft.trunk import Trunk
from edgespec.spec import noise
from edgespec.spec.law import Law, SamplingSettings, Sparse
from edgespec.spec.ports import FloatArray, Plan
from edgespec.spec.tree import DraftMode, DraftTree, check_tree
from tests.draft.toy_step import LogitsOf, Text, ToyStep, hashed, toy_limits
from tests.laws.harness import Chance, Path, Round, TokenLawOf, Vector, deviation
from tests.laws.schemes import accept_chance, residual
from tests.spec.plain_law import reference_probabilities

PROMPT = (2, 0)
EXACT = 1e-12
CAUGHT = 1e-3

SETTINGS = (
    SamplingSettings(temperature=1.0),
    SamplingSettings(temperature=0.7, top_k=2),
    SamplingSettings(temperature=1.3, top_p=0.8, logit_bias=((1, 0.5),)),
    SamplingSettings(temperature=1.0, frequency_penalty=0.9, presence_penalty=0.4, repeat_penalty=1.4, min_p=0.1),
    SamplingSettings(temperature=0.9, banned=(1,)),
    SamplingSettings(),
)


@dataclass(frozen=True)
class Case:
    """A target and a draft as functions of the text, the request's settings, and how the draft is asked."""

    target: LogitsOf
    draft: LogitsOf
    settings: SamplingSettings
    n_vocab: int
    n_ranked: int
    max_nodes: int = 2
    stop_below: float = 0.0

    def plain(self) -> TokenLawOf:
        @cache
        def law(text: Path) -> Vector:
            return reference_probabilities(self.target((*PROMPT, *text)), self.settings, [*PROMPT, *text])

        return law

    def tree(self, chance: Chance) -> DraftTree:
        step = ToyStep(self.draft, toy_limits(self.n_vocab, self.n_ranked))
        drafter = ModelDrafter(
            Trunk(step), Law(self.settings), lambda: 0.0, DraftMode.SAMPLED, self.stop_below, chance.pick
        )
        return drafter.draft(list(PROMPT), Plan(self.max_nodes))


def dense(law: Sparse | None, n_vocab: int) -> Vector:
    assert law is not None
    p = np.zeros(n_vocab)
    p[law.ids] = law.p
    return p


def rejection_walk(case: Case, claimed: TokenLawOf | None = None) -> Round:
    """Token-wise rejection of the drafter's chain; `claimed` says other laws than the tree carries."""
    p = case.plain()

    def play(chance: Chance) -> Path:
        tree = case.tree(chance)
        check_tree(tree, case.n_vocab)
        text: Path = ()
        for node, token in enumerate(tree.tokens.tolist()):
            q = dense(tree.laws[node], case.n_vocab) if claimed is None else claimed(text)
            if not chance.flip(accept_chance(p(text), q, token)):
                return (*text, chance.pick(residual(p(text), q)))
            text = (*text, token)
        return (*text, chance.pick(p(text)))

    return play


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("n_vocab", [3, 4, 5])
def test_sampled_chains_with_their_own_laws_are_exact(n_vocab: int, settings: SamplingSettings) -> None:
    for n_ranked in range(1, n_vocab + 1):
        for seed in range(2):
            case = Case(hashed(n_vocab, seed), hashed(n_vocab, seed + 50), settings, n_vocab, n_ranked)
            assert deviation(rejection_walk(case), case.plain(), horizon=3) <= EXACT


@pytest.mark.parametrize("stop_below", [0.2, 0.45, 0.7])
def test_chains_that_stop_by_their_rows_are_exact(stop_below: float) -> None:
    """How long a chain gets depends on what was drawn before, never on the token it ends with."""
    lengths: set[int] = set()
    for seed in range(4):
        case = Case(hashed(4, seed), hashed(4, seed + 50, spread=2.0), SETTINGS[0], 4, 3, 3, stop_below)
        walk = rejection_walk(case)
        assert deviation(walk, case.plain(), horizon=4) <= EXACT
        lengths |= chain_lengths(case)
    assert len(lengths) >= 2


def chain_lengths(case: Case) -> set[int]:
    waiting: list[Path] = [()]
    found: set[int] = set()
    while waiting:
        chance = Chance(waiting.pop())
        found.add(len(case.tree(chance)))
        waiting += chance.others
    return found


def test_control_full_q_beside_a_truncated_draw_is_caught() -> None:
    """The k tokens are drawn from the renormalised k; the draft's whole row is another law."""
    case = Case(hashed(5, 1, spread=1.0), hashed(5, 51, spread=1.0), SETTINGS[0], 5, 3)

    def full(text: Path) -> Vector:
        return reference_probabilities(case.draft((*PROMPT, *text)), case.settings, [*PROMPT, *text])

    assert deviation(rejection_walk(case, full), case.plain(), horizon=3) > CAUGHT
    assert deviation(rejection_walk(case), case.plain(), horizon=3) <= EXACT
    whole = replace(case, n_ranked=5)  # nothing is cut: then both are the same law
    assert deviation(rejection_walk(whole, full), case.plain(), horizon=3) <= 1e-7


def test_control_a_q_before_penalties_is_caught() -> None:
    case = Case(hashed(4, 3, spread=1.0), hashed(4, 53, spread=1.0), SETTINGS[3], 4, 4)

    def unpenalised(text: Path) -> Vector:
        return reference_probabilities(case.draft((*PROMPT, *text)), SamplingSettings(temperature=1.0), [])

    assert deviation(rejection_walk(case, unpenalised), case.plain(), horizon=3) > CAUGHT


# -- COUPLED under a trimmed vocabulary ---------------------------------------------------------------------------

N_VOCAB = 9
HEAD = (1, 2, 5, 8)


class KeyedByDraftId(Law):
    """The law of a drafter that asks for the noise of its own rows, not of the tokens that they stand for."""

    def noise(self, position: int, tokens: noise.IntTokens) -> Float64Array:
        return super().noise(position, np.searchsorted(np.array(HEAD), tokens))


class FreshNoise(Law):
    """The law of a drafter with noise of its own: what acceptance falls to when the coupling breaks altogether."""

    def noise(self, position: int, tokens: noise.IntTokens) -> Float64Array:
        return noise.gumbel(noise.key(self.settings.seed + 1, position), tokens)


def target_row(text: Text) -> FloatArray:
    """Another law than zero on the draft's own vocabulary only."""
    row = np.full(N_VOCAB, -np.inf, np.float32)
    row[list(HEAD)] = hashed(N_VOCAB, 6)(text)[list(HEAD)]
    return row


def acceptance(kind: type[Law], settings: SamplingSettings, n: int) -> float:
    """The share of first guesses that are the target's own choice, over many texts."""
    step = ToyStep(hashed(N_VOCAB, 6), toy_limits(N_VOCAB, len(HEAD)), HEAD)
    drafter = ModelDrafter(Trunk(step), kind(settings), lambda: 0.0)
    target = Law(settings)
    n_right = 0
    for number in range(n):
        text = [number % 7, number // 7 % 7, *[0] * (number % 5)]
        tree = drafter.draft(text, Plan(1))
        assert tree.mode is DraftMode.COUPLED
        n_right += int(tree.tokens[0]) == target.choose(target_row(tuple(text)), text)
    return n_right / n


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_noise_keyed_by_target_id_is_always_accepted_and_by_draft_id_is_not(temperature: float) -> None:
    settings = SamplingSettings(temperature=temperature, seed=9)
    assert acceptance(Law, settings, 200) == 1.0
    by_draft_id, fresh = acceptance(KeyedByDraftId, settings, 200), acceptance(FreshNoise, settings, 200)
    assert by_draft_id < 1.0 - CAUGHT
    # No better than noise that has nothing to do with the target's, but for the chance in 200 texts.
    assert by_draft_id < fresh + 0.1


@pytest.mark.parametrize("n_nodes", [1, 4])
def test_a_coupled_chain_of_an_equal_draft_is_the_targets_own_text(n_nodes: int) -> None:
    settings = SamplingSettings(temperature=1.2, seed=3, presence_penalty=0.6, top_p=0.9)
    step = ToyStep(hashed(N_VOCAB, 6), toy_limits(N_VOCAB, len(HEAD)), HEAD)
    tree = ModelDrafter(Trunk(step), Law(settings), lambda: 0.0).draft([4, 4], Plan(n_nodes))
    text = [4, 4]
    for _ in range(n_nodes):
        text.append(Law(settings).choose(target_row(tuple(text)), text))
    assert tree.tokens.tolist() == text[2:]
