from __future__ import annotations

import pytest

from edgespec.engine.checks import check_prompt, check_sampling
from edgespec.errors import BadInput, ContextOverflow
from edgespec.spec.law import SamplingSettings


def test_a_prompt_leaves_room_for_one_token() -> None:
    check_prompt([0], 10, 2, 0)
    check_prompt([9] * 63, 10, 64, 0)
    for n in (64, 65, 1000):
        with pytest.raises(ContextOverflow, match=rf"a prompt of {n} tokens: the context holds 64; .*{n + 256}"):
            check_prompt([0] * n, 10, 64, 0)


def test_no_context_is_suggested_that_the_model_was_not_made_for() -> None:
    with pytest.raises(ContextOverflow, match="or give --ctx-size 356"):
        check_prompt([0] * 100, 10, 64, 356)
    with pytest.raises(ContextOverflow, match="shorten it: the model itself holds 355 at most"):
        check_prompt([0] * 100, 10, 64, 355)


def test_a_prompt_has_tokens() -> None:
    with pytest.raises(BadInput, match="no token"):
        check_prompt([], 10, 64, 0)


@pytest.mark.parametrize("token", [-1, 10, 2**31])
def test_a_prompt_is_made_of_the_models_tokens(token: int) -> None:
    with pytest.raises(BadInput, match=f"token {token} in the prompt: the vocabulary ends at 9"):
        check_prompt([1, token, 3], 10, 64, 0)


def test_sampling_names_the_models_tokens() -> None:
    check_sampling(SamplingSettings(), 10)
    check_sampling(SamplingSettings(logit_bias=((9, 1.0),), banned=(0, 9)), 10)
    for strange in (SamplingSettings(logit_bias=((10, 1.0),)), SamplingSettings(banned=(1, 10))):
        with pytest.raises(BadInput, match="token 10 in logit_bias or banned: the vocabulary ends at 9"):
            check_sampling(strange, 10)
