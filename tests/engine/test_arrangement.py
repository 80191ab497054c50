from __future__ import annotations

from dataclasses import replace

import pytest

from edgespec.backend.settings import FlashAttention, LlamaSettings
from edgespec.engine.answer import Answer, CancelToken
from edgespec.engine.arrangement import CHEAP_TOKENS, USUAL_ANSWER, better, length_of
from edgespec.engine.job import Request
from edgespec.engine.options import GenerateOptions
from edgespec.spec.cost import CostTable
from edgespec.tune.tuning import Choice, Tuned, Tuning

TABLE = CostTable((0,), (1,), ((0.01,),))
ON = LlamaSettings(n_ctx=128, flash_attention=FlashAttention.ON)
OFF = replace(ON, flash_attention=FlashAttention.OFF)
SHORT, LONG = Tuned(ON, TABLE, TABLE), Tuned(OFF, TABLE, TABLE)
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
