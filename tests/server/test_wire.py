from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.choice import DraftChoice
from edgespec.engine import GenerateOptions
from edgespec.errors import EdgeSpecError
from edgespec.server.fields import Fields
from edgespec.server.parameters import MAX_STOP_CHARACTERS
from edgespec.server.refusals import Refusal
from edgespec.server.tools import NO_TOOLS, ToolUse
from edgespec.server.wire import Chat, Defaults, Wanted, parse_chat, parse_text
from edgespec.spec.law import SamplingSettings
from edgespec.text.grammar import Grammar
from edgespec.text.messages import Message, Tool
from tests.server.test_fields import JSON

USUAL = Defaults(GenerateOptions(SamplingSettings(temperature=0.7), max_tokens=50, stop=("END",)), seed=3)
NAMES = (
    "model", "stream", "stream_options", "max_tokens", "temperature", "top_p", "n", "stop", "seed", "logit_bias",
    "logprobs", "top_logprobs", "prediction", "edgespec", "top_k", "response_format", "tools", "tool_choice", "prompt",
    "messages", "echo", "user", "audio",
)  # fmt: skip


def chat(**request: object) -> Wanted:
    return parse_chat(Fields({"messages": [{"role": "user", "content": "hi"}], **request}), USUAL)


def text(**request: object) -> Wanted:
    return parse_text(Fields({"prompt": "hi", **request}), USUAL)


def test_a_bare_request_gets_the_defaults() -> None:
    sampling = SamplingSettings(temperature=0.7, seed=3)
    options = GenerateOptions(sampling, max_tokens=50, stop=("END",))
    assert chat() == Wanted(Chat((Message("user", "hi"),)), options)
    assert text() == Wanted("hi", options)
    assert chat().is_chat
    assert not text().is_chat


def test_what_a_request_says_holds() -> None:
    wanted = text(
        temperature=0.1, top_p=0.5, top_k=4, min_p=0.1, repeat_penalty=1.2, frequency_penalty=0.5, presence_penalty=1,
        repeat_last_n=8, seed=9, logit_bias={"5": -100}, max_tokens=7, stop="x", stream=True, model="m",
        stream_options={"include_usage": True}, prediction={"type": "content", "content": "p"},
        edgespec={"draft": "lookup", "verify": "block"}, user="me", store=True,
    )  # fmt: skip
    sampling = SamplingSettings(0.1, 4, 0.5, 0.1, 1.2, 0.5, 1.0, 8, 9, ((5, -100.0),))
    options = GenerateOptions(sampling, 7, ("x", "END"), False, DraftChoice.LOOKUP, "p", "block")
    assert wanted == Wanted("hi", options, stream=True, include_usage=True)


def test_a_chats_newer_name_for_the_limit_wins() -> None:
    assert chat(max_tokens=5).options.max_tokens == 5
    assert chat(max_tokens=5, max_completion_tokens=6).options.max_tokens == 6


def test_seeds_have_64_bits_with_or_without_a_sign() -> None:
    assert text(seed=-1).options.sampling.seed == 2**64 - 1
    assert text(seed=2**63).options.sampling.seed == 2**63
    for seed in (2**64, -(2**63) - 1):
        with pytest.raises(Refusal, match="64 bits"):
            text(seed=seed)


def test_prompts_of_a_completion() -> None:
    assert text(prompt=["one"]).prompt == "one"
    assert text(prompt=[1, 2]).prompt == (1, 2)
    assert text(prompt=[[1, 2]]).prompt == (1, 2)
    for batch in (["a", "b"], [[1], [2]]):
        with pytest.raises(Refusal, match="one prompt"):
            text(prompt=batch)
    strange: list[object] = [[1.5], [True], {}, None, 3]
    for prompt in strange:
        with pytest.raises(Refusal):
            text(prompt=prompt)


def test_rounds_are_a_streams() -> None:
    assert chat(stream=True, edgespec={"rounds": True}).rounds
    assert not chat(stream=True).rounds
    assert not text(edgespec={"rounds": False}).rounds
    with pytest.raises(Refusal, match="only a stream tells them"):
        chat(edgespec={"rounds": True})


def test_log_probabilities_in_both_shapes() -> None:
    assert chat().n_top_logprobs is None
    assert chat(logprobs=True).n_top_logprobs == 0
    assert chat(logprobs=True, top_logprobs=20).n_top_logprobs == 20
    assert text(logprobs=0).n_top_logprobs == 0
    assert text(logprobs=5).n_top_logprobs == text(logprobs=5).options.n_top_logprobs == 5
    assert text(logprobs=None).options.n_top_logprobs is None
    for request in ({"top_logprobs": 3}, {"logprobs": True, "top_logprobs": 21}, {"logprobs": 3}):
        with pytest.raises(Refusal):
            chat(**request)
    for n_top in (-2, 21, True):
        with pytest.raises(Refusal):
            text(logprobs=n_top)


def test_prescribed_forms() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert chat(response_format={"type": "text"}).options.grammar is None
    assert chat(response_format={"type": "json_object"}).options.grammar == Grammar.json_object()
    grammar = chat(
        response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    ).options.grammar
    assert grammar is not None
    assert json.loads(grammar.text) == schema
    assert "'n'" in grammar.name
    for form in ({"type": "xml"}, {"type": "json_schema"}, {"type": "json_schema", "json_schema": {"name": "n"}}):
        with pytest.raises(Refusal):
            chat(response_format=form)


def test_tools_unless_none_shall_be_called() -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    assert chat(tools=tools).tools == ToolUse((Tool("f", "", '{"type": "object"}'),))
    assert chat(tools=tools, tool_choice="none").tools == NO_TOOLS
    assert chat(tools=[], parallel_tool_calls=False).tools == NO_TOOLS
    with pytest.raises(Refusal):
        text(tools=tools)


@pytest.mark.parametrize(
    ("request_", "param"),
    [
        ({"n": 2}, "n"),
        ({"stop": ["a"] * 17}, "stop"),
        ({"stop": [3]}, "stop[0]"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_completion_tokens": -1}, "max_completion_tokens"),
        ({"edgespec": {"draft": "magic"}}, "edgespec.draft"),
        ({"edgespec": {"fast": True}}, "edgespec.fast"),
        ({"prediction": {"type": "guess", "content": "x"}}, "prediction.type"),
        ({"stream_options": {"usage": True}}, "stream_options.usage"),
        ({"audio": {}}, "audio"),
        ({"modalities": ["audio"]}, "modalities"),
        ({"temperatur": 1}, "temperatur"),
        ({"prompt": "x"}, "prompt"),
    ],
)
def test_what_is_wrong_is_named(request_: dict[str, Any], param: str) -> None:
    with pytest.raises(Refusal) as refused:
        chat(**request_)
    assert refused.value.param == param


@pytest.mark.parametrize(
    ("request_", "param", "message"),
    [
        ({"temperature": -1}, "temperature", "temperature = -1.0: it must be between"),
        ({"repeat_last_n": -1}, "repeat_last_n", "repeat_last_n = -1: it must be between"),
        ({"logit_bias": {"5": 1, "05": 2}}, "logit_bias", "it names a token twice"),
        ({"top_k": 10**400}, "top_k", "it has more than 64 bits"),
        ({"max_tokens": -1e300}, "max_tokens", "it has more than 64 bits"),
        ({"stop": ["a", ""]}, "stop", "an empty text would end every answer"),
        ({"stop": "x" * (MAX_STOP_CHARACTERS + 1)}, "stop", "it is longer than"),
        ({"edgespec": {"verify": "x"}}, "edgespec.verify", "there is no 'x'; give one of path, "),
        ({"edgespec": {"verify": "block", "exact": True}}, "edgespec.verify", "with 'block' no answer is exact"),
    ],
)
def test_values_out_of_range_are_named_as_the_request_names_them(
    request_: dict[str, Any], param: str, message: str
) -> None:
    with pytest.raises(Refusal, match=message) as refused:
        chat(**request_)
    assert refused.value.param == param


def test_ids_are_told_where_they_are_asked_for() -> None:
    assert text(edgespec={"token_ids": True}).token_ids
    assert not chat(edgespec={}).token_ids


def test_what_only_a_completion_has_and_is_not_served() -> None:
    assert text(echo=False, suffix="", best_of=1) == text()
    for request in ({"echo": True}, {"suffix": "x"}, {"best_of": 2}):
        with pytest.raises(Refusal, match="not served"):
            text(**request)


@given(st.dictionaries(st.sampled_from(NAMES), JSON, max_size=4))
def test_whatever_is_asked_is_read_or_refused(request_: dict[str, object]) -> None:
    for parse in (parse_chat, parse_text):
        with suppress(EdgeSpecError):
            wanted = parse(Fields({"messages": [{"role": "user", "content": "hi"}], **request_}), USUAL)
            assert wanted.options.max_tokens >= 1


def test_a_schema_that_is_nested_too_deeply_is_refused() -> None:
    schema: dict[str, object] = {}
    for _ in range(100_000):
        schema = {"a": schema}
    with pytest.raises(Refusal, match="nested"):
        chat(response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}})
