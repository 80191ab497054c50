"""The replay rule on a real model: its rounding is told apart from defects planted in the target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgespec.backend.llama.native import load_model
from edgespec.backend.llama.target import LlamaTarget
from edgespec.backend.llama.vocab import LlamaVocabulary
from edgespec.backend.settings import LlamaSettings
from edgespec.replay import Run, Verdict, explain
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.ports import Target
from tests.planted import Forger, LostCell, OffByOne, StaleCell, answer

pytestmark = pytest.mark.live

GREEDY = Law(SamplingSettings())
WARM = Law(SamplingSettings(temperature=0.8, top_p=0.95, seed=3))
N_OUTPUT = 24
TEXTS = (
    "The old lighthouse keeper climbed the stairs once more, and when he reached the lamp he saw",
    "Water boils at 100 degrees Celsius at sea level. On a high mountain it boils at",
    "Dear Sir or Madam, I am writing to complain about the kettle that I bought from you last",
)


class Model:
    """One loaded model, its prompts as tokens, and its plain answers, which no planted defect touches."""

    def __init__(self, path: Path) -> None:
        settings = LlamaSettings(n_ctx=256, n_threads=1)
        model = load_model(path, settings)
        self.target = LlamaTarget(model, settings)
        vocab = LlamaVocabulary(model)
        self.prompts = [vocab.tokenize(text) for text in TEXTS]
        self.greedy = [self.plain(GREEDY, prompt) for prompt in self.prompts]

    def plain(self, law: Law, prompt: list[int]) -> Run:
        return answer(self.target, law, prompt, N_OUTPUT)

    def verdict(self, target: Target, law: Law, plain: Run, seed: int, branches: bool) -> Verdict | None:
        """On a drafted answer of `target`, which replays both answers too."""
        forger = Forger(plain.token_ids, target.capabilities.n_vocab, seed, branches)
        difference = explain(target, law, plain, answer(target, law, plain.prompt, N_OUTPUT, (forger,)))
        return difference.verdict if difference else None


@pytest.fixture(scope="module")
def model(starter_model: Path) -> Iterator[Model]:
    loaded = Model(starter_model)
    yield loaded
    loaded.target.close()


@pytest.mark.parametrize("branches", [False, True], ids=["chain", "tree"])
def test_an_honest_target_has_no_bugs(model: Model, branches: bool) -> None:
    verdicts = [model.verdict(model.target, GREEDY, plain, seed, branches) for seed, plain in enumerate(model.greedy)]
    assert Verdict.BUG not in verdicts


def test_an_honest_target_has_no_bugs_at_a_temperature(model: Model) -> None:
    plain = model.plain(WARM, model.prompts[0])
    assert model.verdict(model.target, WARM, plain, 0, branches=False) is not Verdict.BUG


@pytest.mark.parametrize(
    ("plant", "branches"), [(StaleCell, False), (LostCell, True), (OffByOne, False)], ids=["stale", "lost", "shifted"]
)
def test_a_planted_defect_is_a_bug(model: Model, plant: Callable[[Target], Target], branches: bool) -> None:
    defective = plant(model.target)
    verdicts = [model.verdict(defective, GREEDY, plain, seed, branches) for seed, plain in enumerate(model.greedy)]
    assert verdicts.count(Verdict.BUG) >= len(TEXTS) - 1  # a tie may come first by chance
