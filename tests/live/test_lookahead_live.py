"""Lookahead and Jacobi on a real quantised model: they say what plain decoding says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from edgespec.backend.llama.native import load_model
from edgespec.backend.llama.target import LlamaTarget
from edgespec.backend.llama.vocab import LlamaVocabulary
from edgespec.backend.settings import LlamaSettings
from edgespec.backend.widths import Scope, find_classes
from edgespec.draft.jacobi import JacobiDrafter
from edgespec.draft.lookahead import LookaheadDrafter
from edgespec.events import RoundReport
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.policy import FixedPolicy
from edgespec.spec.ports import Drafter
from edgespec.spec.round import Drafting, Loop
from edgespec.spec.sequence import SequenceState
from edgespec.spec.verify import PathVerifier
from tests.backend.llama.driving import peek, read

pytestmark = pytest.mark.live

SETTINGS = LlamaSettings(n_ctx=512, n_threads=1, max_rows=48, max_leaves=16, max_sequences=1)
TEXT = "List of the months of the year, each with its number of days:\nJanuary: 31 days\nFebruary: 28 days\n"
N_TOKENS = 40
# Logits of one text differ between passes of other widths and cells in another order by up to about 1; a wrong cell or
# position makes differences of 5 and more.
TIED = 2.0


@dataclass(frozen=True)
class Model:
    target: LlamaTarget
    prompt: list[int]

    def say(self, drafter: Drafter | None, widths: tuple[int, ...] = ()) -> tuple[list[int], list[RoundReport]]:
        """The greedy answer, and its rounds."""
        self.target.release(0)
        read(self.target, self.prompt[:-1], chunk=64)
        drafters = () if drafter is None else (drafter,)
        for one in drafters:
            one.begin(0, np.array(self.prompt, np.int32))
        state = SequenceState.start(0, list(self.prompt), Law(SamplingSettings()), N_TOKENS, frozenset(), widths)
        loop = Loop(self.target, FixedPolicy(max_nodes=40, max_leaves=16), PathVerifier(), time.perf_counter)
        reports: list[RoundReport] = []
        while state.finish is None:
            reports += loop.run([Drafting.of(state, drafters)])
        return state.tokens[len(self.prompt) :], reports


@pytest.fixture(scope="module")
def model(starter_model: Path) -> Iterator[Model]:
    loaded = load_model(starter_model, SETTINGS)
    target = LlamaTarget(loaded, SETTINGS)
    yield Model(target, LlamaVocabulary(loaded).tokenize(TEXT))
    target.close()


@pytest.fixture(scope="module")
def widths(model: Model) -> tuple[int, ...]:
    """The largest class of widths whose rows agree bit for bit, as far as a quick look shows."""
    text = np.array(model.prompt * 4, np.int32)
    ticks = iter(range(10**6))
    classes = find_classes(
        model.target, text, lambda: next(ticks) * 1e-9, scopes=[Scope((64,), max_width=8, n_rows=16)]
    )
    return max(classes, key=len)


@pytest.mark.parametrize("drafter", [LookaheadDrafter(4, 3), JacobiDrafter(7)], ids=lambda drafter: str(drafter.name))
def test_exact_answers_are_plain_ones(drafter: LookaheadDrafter, model: Model, widths: tuple[int, ...]) -> None:
    plain, _ = model.say(None, widths)
    said, reports = model.say(drafter, widths)
    assert said == plain
    assert {report.n_rows for report in reports} <= set(widths)
    assert (sum(report.n_drafted for report in reports) > 0) == (len(widths) > 1)


@pytest.mark.parametrize("drafter", [LookaheadDrafter(6, 4), JacobiDrafter(8)], ids=lambda drafter: str(drafter.name))
def test_fast_answers_differ_from_plain_ones_at_ties_only(drafter: LookaheadDrafter, model: Model) -> None:
    plain, _ = model.say(None)
    said, reports = model.say(drafter)
    assert len(said) == len(plain)
    assert len(reports) < len(said)
    n_same = next((i for i, (one, other) in enumerate(zip(said, plain, strict=True)) if one != other), None)
    if n_same is not None:
        model.target.release(0)
        read(model.target, [*model.prompt, *plain[:n_same]][:-1], chunk=64)
        row = peek(model.target, [*model.prompt, *plain[:n_same]][-1:])[0]
        assert abs(float(row[plain[n_same]] - row[said[n_same]])) <= TIED


def test_text_that_goes_on_in_a_pattern_takes_fewer_passes(model: Model) -> None:
    said, reports = model.say(LookaheadDrafter(6, 4))
    assert len(said) / len(reports) > 1.2
