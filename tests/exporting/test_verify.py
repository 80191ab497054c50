from __future__ import annotations

import numpy as np
import pytest

from edgespec.backend.toy import ToyModel, ToyTarget
from edgespec.exporting.texts import Text, greedy_texts
from edgespec.exporting.verify import StepSeconds, measure_agreement, measure_steps
from edgespec.spec.ports import Capabilities
from tests.exporting.toys import TwinStep

MODEL = ToyModel(n_vocab=16, order=3)


def texts() -> list[Text]:
    draw = np.random.default_rng(1)
    asked = [draw.integers(0, 16, n).astype(np.int32) for n in (1, 9, 40)]
    return greedy_texts(ToyTarget(MODEL), asked, 21, frozenset())


@pytest.mark.parametrize("max_rows", [1, 3, 8, 64])
def test_the_same_model_agrees_everywhere(max_rows: int) -> None:
    step = TwinStep(MODEL)
    target = ToyTarget(MODEL, Capabilities(4096, 16, max_rows, 64, 16, True))
    counts: list[int] = []
    found = measure_agreement(target, step, texts(), counts.append)
    assert (found.n_positions, found.top1, found.self_top1) == (63, 1.0, 1.0)
    assert found.mean_tv == pytest.approx(0.0, abs=1e-6)
    assert found.max_logit_error == pytest.approx(0.0, abs=1e-6)
    assert sum(counts) == 63
    assert target.length(0) == 0


def test_every_difference_is_seen() -> None:
    assert measure_agreement(ToyTarget(MODEL), TwinStep(MODEL, swapped=True), texts()).top1 == 0.0
    shifted = measure_agreement(ToyTarget(MODEL), TwinStep(MODEL, shift=0.5), texts())
    assert shifted.top1 == 1.0
    assert shifted.max_logit_error == pytest.approx(0.5, abs=1e-5)
    assert shifted.mean_tv == pytest.approx(0.0, abs=1e-6)
    other = measure_agreement(ToyTarget(MODEL), TwinStep(ToyModel(n_vocab=16, order=3, seed=1)), texts())
    assert other.top1 < 0.5
    assert other.p95_tv >= other.mean_tv > 0.3


def test_a_text_longer_than_the_step_models_cache_is_compared_as_far_as_it_goes() -> None:
    (text, *_) = texts()
    assert measure_agreement(ToyTarget(MODEL), TwinStep(MODEL, n_ctx=10), [text]).n_positions == 10


def test_a_window_that_keeps_less_is_read_again() -> None:
    target = ToyTarget(MODEL, Capabilities(4096, 16, 4, 64, 16, True), window=5)
    assert measure_agreement(target, TwinStep(MODEL), texts()).top1 == 1.0


def test_a_target_that_rounds_by_width_does_not_agree_with_itself() -> None:
    """Near-ties turn: logits have few levels here, so that there are many."""
    tied = ToyModel(n_vocab=16, order=3, n_levels=4)
    found = measure_agreement(ToyTarget(tied, rounding=True), TwinStep(tied), texts())
    assert found.self_top1 < 0.95
    assert measure_agreement(ToyTarget(tied), TwinStep(tied), texts()).self_top1 == 1.0


def test_nothing_to_compare() -> None:
    with pytest.raises(ValueError, match="no positions"):
        measure_agreement(ToyTarget(MODEL), TwinStep(MODEL), [])


def test_medians_by_a_clock_in_turn() -> None:
    """The clock moves on by 1, 2, 3, ...: a step's end is read right after its beginning, then the target's."""
    (text, *_) = texts()
    ticks = iter(np.cumsum(np.arange(1000)).tolist())
    step, target = TwinStep(MODEL), ToyTarget(MODEL)
    found = measure_steps(target, step, text, lambda: float(next(ticks)), n=3)
    # Of three readings a pair, the differences are (1, 2), (4, 5), (7, 8), (10, 11); the first pair does not count.
    assert found == StepSeconds(step=7.0, target=8.0)
    assert step.n_runs == 4
    assert step.text == text.tokens[: len(text.prompt) + 3].tolist()
    assert target.length(0) == 0


def test_too_short_to_time() -> None:
    short = Text(np.array([1, 2], dtype=np.int32), np.array([3], dtype=np.int32))
    with pytest.raises(ValueError, match="an answer of 1 tokens"):
        measure_steps(ToyTarget(MODEL), TwinStep(MODEL), short, lambda: 0.0)
