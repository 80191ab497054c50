from __future__ import annotations

import pytest

from edgespec.choice import DraftChoice
from edgespec.engine.options import DEFAULT_MAX_TOKENS, EngineOptions, GenerateOptions
from edgespec.errors import BadInput


def test_what_is_not_chosen() -> None:
    options = GenerateOptions()
    assert (options.max_tokens, options.stop, options.exact) == (DEFAULT_MAX_TOKENS, (), False)
    assert (options.draft, options.prediction, options.sampling.temperature) == (DraftChoice.AUTO, "", 0.0)
    assert (EngineOptions().ctx_size, EngineOptions().threads, EngineOptions().gpu_layers) == (4096, None, None)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("--ctx-size 63", lambda: EngineOptions(ctx_size=63)),
        ("--threads 0", lambda: EngineOptions(threads=0)),
        ("--gpu-layers -2", lambda: EngineOptions(gpu_layers=-2)),
        ("--parallel 0", lambda: EngineOptions(parallel=0)),
        ("--parallel 33", lambda: EngineOptions(parallel=33)),
        ("--max-tokens 0", lambda: GenerateOptions(max_tokens=0)),
        ("stop string ''", lambda: GenerateOptions(stop=("a", ""))),
        ("--logprobs -1", lambda: GenerateOptions(n_top_logprobs=-1)),
        ("--logprobs 21", lambda: GenerateOptions(n_top_logprobs=21)),
    ],
)
def test_values_that_cannot_work_are_named(name: str, make: type) -> None:
    with pytest.raises(BadInput) as caught:
        make()
    assert caught.value.what == name


def test_the_least_that_works() -> None:
    EngineOptions(ctx_size=64, threads=1, gpu_layers=-1, parallel=1)
    GenerateOptions(max_tokens=1, stop=("a",), n_top_logprobs=0)


def test_choices_are_spelled_as_on_the_command_line() -> None:
    assert [one.value for one in (DraftChoice.AUTO, DraftChoice.OFF, DraftChoice.LOOKUP)] == ["auto", "off", "lookup"]


def test_stop_strings_in_a_row_without_a_tuple_are_refused() -> None:
    with pytest.raises(BadInput, match="each of its letters would be one"):
        GenerateOptions(stop="the")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [float("nan"), 2.5])
def test_counts_are_whole_numbers(value: float) -> None:
    with pytest.raises(BadInput, match="whole number"):
        GenerateOptions(max_tokens=value)  # type: ignore[arg-type]
