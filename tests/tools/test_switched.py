from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from edgespec.backend.toy import ToyModel
from edgespec.bench.arms import EngineArm
from edgespec.choice import DraftChoice
from edgespec.draft.corpus import Corpus
from edgespec.engine import Engine, Extras, GenerateOptions
from edgespec.spec.law import SamplingSettings
from edgespec.spec.policy import FixedPolicy
from edgespec.spec.ports import Capabilities, Plan
from tests.engine.toy_engine import EngineTarget, ToyOpened
from tests.text.toy_vocab import ToyVocabulary
from tools.switched import SwitchedArm, SwitchedSuffix

VOCAB = ToyVocabulary()
LIMITS = Capabilities(n_ctx=256, n_vocab=VOCAB.n_vocab, max_rows=16, max_chunk=32, max_leaves=4, can_rollback=True)
OPTIONS = GenerateOptions(SamplingSettings(banned=tuple(VOCAB.end_tokens)), max_tokens=24)
PROMPT = [5, 6, 7, 8, 9]


@pytest.fixture
def corpus() -> Corpus:
    return Corpus()


@pytest.fixture
def suffix(corpus: Corpus) -> SwitchedSuffix:
    return SwitchedSuffix(corpus)


@pytest.fixture
def engine(suffix: SwitchedSuffix) -> Iterator[Engine]:
    target = EngineTarget(ToyModel(n_vocab=VOCAB.n_vocab, seed=2), LIMITS)
    with Engine(ToyOpened(target), "toy", [], Extras(FixedPolicy(), (suffix,))) as opened:
        yield opened


def arm(engine: Engine, suffix: SwitchedSuffix, is_warm: bool) -> SwitchedArm:
    options = GenerateOptions(OPTIONS.sampling, OPTIONS.max_tokens, draft=DraftChoice.parse("suffix"))
    return SwitchedArm(EngineArm(engine, "warm" if is_warm else "cold", options), suffix, is_warm)


def test_only_the_warm_one_drafts_from_the_corpus(suffix: SwitchedSuffix, corpus: Corpus) -> None:
    corpus.add([1, 2, 3, 4, 5, 6])
    prompt = np.array([9, 1, 2, 3], np.int32)
    suffix.begin(0, prompt)
    suffix.is_warm = True
    suffix.begin(1, prompt)
    suffix.is_warm = False
    assert len(suffix.propose(0, Plan(3))) == 0
    assert suffix.propose(1, Plan(3)).tokens.tolist() == [4, 5, 6]
    assert (suffix.behind(0), suffix.behind(1)) == (0, 0)
    for sequence in (0, 1, 1):  # ending twice is no error
        suffix.end(sequence)
    with pytest.raises(KeyError):
        suffix.propose(1, Plan(3))


def test_an_arm_asks_with_its_own_drafter_and_gets_the_same_text(
    engine: Engine, suffix: SwitchedSuffix, corpus: Corpus
) -> None:
    cold, warm = arm(engine, suffix, is_warm=False), arm(engine, suffix, is_warm=True)
    first = cold.answer(PROMPT)
    corpus.add([*PROMPT, *first.token_ids])
    again, known = cold.answer(PROMPT), warm.answer(PROMPT)
    assert again.token_ids == known.token_ids == first.token_ids
    assert again.passes == first.passes
    assert known.passes < first.passes / 2


def test_a_warm_up_is_of_the_same_drafter(engine: Engine, suffix: SwitchedSuffix) -> None:
    for is_warm in (True, False, True):
        one = arm(engine, suffix, is_warm)
        one.warm_up(PROMPT)
        assert suffix.is_warm == is_warm
        one.settle(PROMPT)
    assert (arm(engine, suffix, True).name, arm(engine, suffix, False).name) == ("warm", "cold")
