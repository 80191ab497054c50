"""The replay rule on a real model: its rounding is told apart from defects planted in the target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from edgespec.backend.llama.native import load_model
from edgespec.backend.llama.target import LlamaTarget
from edgespec.backend.llama.vocab import LlamaVocabulary
from edgespec.backend.settings import LlamaSettings
from edgespec.replay import Verdict, explain
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.ports import Target
from tests.planted import Forger, LostCell, OffByOne, StaleCell, answer

pytestmark = pytest.mark.live

GREEDY = Law(SamplingSettings())
WARM = Law(SamplingSettings(temperature=0.8, top_p=0.95, seed=3))
TEXTS = (
    "The old lighthouse keeper climbed the stairs once more, and when he reached the lamp he saw",
    "Water boils at 100 degrees Celsius at sea level. On a high mountain it boils at",
    "def fibonacci(n):\n    a, b = 0, 1\n    for",
)


class Model:
    """One loaded model with its prompts as tokens."""

    def __init__(self, path: Path) -> None:
        settings = LlamaSettings(n_ctx=512, n_threads=1)
        model = load_model(path, settings)
        self.target = LlamaTarget(model, settings)
        vocab = LlamaVocabulary(model)
        self.prompts = [vocab.tokenize(text) for text in TEXTS]


@pytest.fixture(scope="module")
def model(starter_model: Path) -> Iterator[Model]:
    loaded = Model(starter_model)
    yield loaded
    loaded.target.close()


def verdicts(model: Model, law: Law, plant: Callable[[Target], Target] | None, branches: bool) -> list[Verdict | None]:
    """For each prompt, with the defect in the target that drafts and in the one that replays."""
    target: Target = plant(model.target) if plant else model.target
    n_vocab = target.capabilities.n_vocab
    found: list[Verdict | None] = []
    for seed, prompt in enumerate(model.prompts):
        plain = answer(target, law, prompt, 40)
        drafted = answer(target, law, prompt, 40, (Forger(plain.token_ids, n_vocab, seed, branches),))
        difference = explain(target, law, plain, drafted)
        found.append(difference.verdict if difference else None)
    return found


@pytest.mark.parametrize("law", [GREEDY, WARM], ids=["greedy", "warm"])
def test_an_honest_target_has_no_bugs(model: Model, law: Law) -> None:
    assert Verdict.BUG not in verdicts(model, law, None, branches=False)


@pytest.mark.parametrize("plant", [StaleCell, LostCell, OffByOne])
@pytest.mark.parametrize("branches", [False, True], ids=["chain", "tree"])
def test_a_planted_defect_is_a_bug(model: Model, plant: Callable[[Target], Target], branches: bool) -> None:
    assert verdicts(model, GREEDY, plant, branches).count(Verdict.BUG) >= 2


def test_the_prompts_are_long_enough_to_tell(model: Model) -> None:
    assert all(len(prompt) > 10 for prompt in model.prompts)
    assert len(np.unique(np.concatenate([np.array(p) for p in model.prompts]))) > 30
