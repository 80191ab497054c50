from __future__ import annotations

from dataclasses import replace

import pytest

from edgespec.backend.settings import FlashAttention, LlamaSettings
from edgespec.backend.toy import ToyModel
from edgespec.choice import DraftChoice
from edgespec.engine.answer import Answer, CancelToken
from edgespec.engine.arrangement import CHEAP_ONCE_TOKENS, CHEAP_TOKENS, USUAL_ANSWER, Arranger, better, length_of
from edgespec.engine.job import Request
from edgespec.engine.options import GenerateOptions
from edgespec.engine.policies import Policies
from edgespec.errors import EdgeSpecError, NotEnoughMemory
from edgespec.spec.cost import CostTable
from edgespec.spec.ports import Capabilities
from edgespec.tune.tuning import Choice, Tuned, Tuning
from tests.engine.toy_engine import EngineTarget

TABLE = CostTable((0,), (1,), ((0.01,),))
ON = LlamaSettings(n_ctx=128, flash_attention=FlashAttention.ON)
OFF = replace(ON, flash_attention=FlashAttention.OFF)
SLOW = CostTable((0,), (1,), ((0.02,),))
SHORT, LONG = Tuned(ON, TABLE, TABLE), Tuned(OFF, SLOW, SLOW)
TUNING = Tuning((Choice(400, SHORT), Choice(4096, LONG)), (128, 1024), (), ON, 1.0, (), False, "2026-01-01")
# What the target runs with has the room that its user wanted.
RUNNING = replace(ON, n_ctx=4096)


def request(n_prompt: int, max_tokens: int = 100, exact: bool = False) -> Request:
    return Request(0, False, [1] * n_prompt, GenerateOptions(max_tokens=max_tokens, exact=exact), Answer(CancelToken()))


@pytest.mark.parametrize(("n_prompt", "wanted"), [(300, None), (301, LONG)])
def test_the_length_of_prompt_and_answer_decides(n_prompt: int, wanted: Tuned | None) -> None:
    assert better(RUNNING, TUNING, request(n_prompt), 0) is wanted


def test_an_answer_is_not_taken_to_be_as_long_as_it_may_be() -> None:
    assert length_of(request(10, 10_000)) == 10 + USUAL_ANSWER
    assert length_of(request(10, 5)) == 15


def test_what_is_cached_is_not_thrown_away_for_a_fast_answer_but_for_an_exact_one() -> None:
    assert better(RUNNING, TUNING, request(1000), CHEAP_TOKENS) is LONG
    assert better(RUNNING, TUNING, request(1000), CHEAP_TOKENS + 1) is None
    assert better(RUNNING, TUNING, request(1000, exact=True), 3000) is LONG


def test_nothing_changes_without_measurements_or_when_the_model_would_have_to_be_loaded_again() -> None:
    assert better(RUNNING, None, request(1000), 0) is None
    assert better(replace(RUNNING, extra_buffers=False), TUNING, request(1000), 0) is None
    assert better(replace(RUNNING, n_gpu_layers=-1), TUNING, request(1000), 0) is None


# -- the arranger -------------------------------------------------------------------------------------------------


class FakeTarget(EngineTarget):
    """refuses: what reopening raises."""

    def __init__(self, settings: LlamaSettings) -> None:
        super().__init__(ToyModel(n_vocab=8), Capabilities(4096, 8, 16, 256, 1, True))
        self.settings = settings
        self.refuses: EdgeSpecError | None = None
        self.n_reopened = 0

    def reopen(self, settings: LlamaSettings) -> None:
        self.n_reopened += 1
        if self.refuses is not None:
            raise self.refuses
        super().reopen(settings)


def arranger(target: FakeTarget, policies: Policies, tuning: Tuning | None = TUNING) -> Arranger:
    return Arranger(target, policies, None, tuning)


def test_a_long_text_gets_other_settings_and_their_prices() -> None:
    target, policies = FakeTarget(RUNNING), Policies(TABLE)
    one = arranger(target, policies)
    assert not one.suit(request(100), 0)
    assert one.suit(request(1000), 0)
    assert target.settings == one.settings == replace(RUNNING, flash_attention=FlashAttention.OFF)
    assert policies.of({DraftChoice.AUTO}).t1_seconds == 0.02
    assert not one.suit(request(1000), 0)
    assert target.n_reopened == 1


def test_settings_that_do_not_fit_are_tried_once_and_the_cache_is_empty_then() -> None:
    target = FakeTarget(RUNNING)
    target.refuses = NotEnoughMemory("what", "why", "remedy")
    one = arranger(target, Policies(TABLE))
    assert one.suit(request(1000), 0)
    assert (one.settings, one.tuning) == (RUNNING, TUNING)
    assert not one.suit(request(1000), 0)
    assert target.n_reopened == 1


def test_what_is_learned_of_the_very_settings_that_run_counts_at_once() -> None:
    policies = Policies()
    one = arranger(FakeTarget(RUNNING), policies, None)
    one.learn(TUNING)
    assert policies.decides
    assert one.tuning is TUNING


def test_settings_that_were_never_measured_are_left_once_at_a_higher_price() -> None:
    running = replace(RUNNING, n_threads=3)
    target, policies = FakeTarget(running), Policies()
    one = arranger(target, policies, None)
    one.learn(TUNING)
    assert not policies.decides
    assert not one.suit(request(100), CHEAP_ONCE_TOKENS + 1)
    assert one.suit(request(100), CHEAP_ONCE_TOKENS)
    assert policies.decides
    assert not one.suit(request(1000), CHEAP_TOKENS + 1)


def test_what_needs_the_model_loaded_anew_waits_for_the_next_start() -> None:
    one = arranger(FakeTarget(replace(RUNNING, extra_buffers=False)), Policies(), None)
    one.learn(TUNING)
    assert one.tuning is None
