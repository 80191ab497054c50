"""The parsers read what the page names, and refuse the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from edgespec.engine import GenerateOptions
from edgespec.server.fields import Fields
from edgespec.server.parameters import CHAT, NO_EFFECT, REFUSED, TEXT
from edgespec.server.refusals import Refusal
from edgespec.server.wire import Defaults, Wanted, parse_chat, parse_text
from tests.server.described import schema_of, validator

DEFAULTS = Defaults(GenerateOptions(max_tokens=8), seed=0)
MESSAGES = [{"role": "user", "content": "hi"}]
TOOLS = [{"type": "function", "function": {"name": "f"}}]


class Noted(Mapping[str, object]):
    """A request that notes which of its parameters were asked for."""

    def __init__(self, values: dict[str, object]) -> None:
        self._values = values
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> object:
        self.asked.add(name)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


ENDPOINTS = [
    (parse_chat, "ChatRequest", {"messages": MESSAGES}, CHAT),
    (parse_text, "CompletionRequest", {"prompt": "hi"}, TEXT),
]


@pytest.mark.parametrize(("parse", "name", "least", "own"), ENDPOINTS)
def test_what_the_parsers_read_is_what_the_page_names(
    parse: Callable[[Fields, Defaults], Wanted], name: str, least: dict[str, object], own: dict[str, object]
) -> None:
    described = set(schema_of(name)["properties"])
    noted = Noted(least)
    parse(Fields(noted), DEFAULTS)
    assert described - set(NO_EFFECT) <= noted.asked
    assert described >= set(own)
    for undescribed in noted.asked - described:  # it belongs to the other endpoint
        with pytest.raises(Refusal, match="no such parameter"):
            parse(Fields({**least, undescribed: 1}), DEFAULTS)
    for unread in NO_EFFECT:
        assert parse(Fields({**least, unread: "x"}), DEFAULTS) == parse(Fields(least), DEFAULTS)
    nothing = {parameter: least.get(parameter) for parameter in described}
    assert parse(Fields(nothing), DEFAULTS) == parse(Fields(least), DEFAULTS)
    assert validator(name).is_valid(nothing)
    with pytest.raises(Refusal, match="no such parameter"):
        parse(Fields({**least, "x-new": 1}), DEFAULTS)
    assert not validator(name).is_valid({**least, "x-new": 1})


def test_what_is_refused_by_name_is_described_as_such() -> None:
    for parameter, why in REFUSED.items():
        with pytest.raises(Refusal, match=why):
            parse_chat(Fields({"messages": MESSAGES, parameter: {}}), DEFAULTS)
        assert not validator("ChatRequest").is_valid({"messages": MESSAGES, parameter: {}})


@pytest.mark.parametrize(
    ("inner", "known"),
    [
        ("stream_options", ["include_usage", "include_obfuscation"]),
        ("edgespec", ["draft", "exact", "verify", "rounds", "token_ids"]),
        ("prediction", ["type", "content"]),
    ],
)
def test_inner_objects_have_the_same_names(inner: str, known: list[str]) -> None:
    described = schema_of("ChatRequest")["properties"][inner]["anyOf"][0]["properties"]
    assert list(described) == known
    with pytest.raises(Refusal) as refused:
        parse_chat(Fields({"messages": MESSAGES, inner: {"x-new": 1}}), DEFAULTS)
    assert refused.value.param == f"{inner}.x-new"


ACCEPTED: list[dict[str, object]] = [
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}], "name": "Ann"}]},
    {"messages": [{"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": ""}}]}]},
    {"stop": ["a", "b"], "seed": -1, "logit_bias": {"5": -100}, "modalities": ["text"], "max_tokens": 5.0},
    {"response_format": {"type": "json_object"}},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}},
    {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False},
    {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "f"}}},
    {"logprobs": True, "top_logprobs": 3, "prediction": {"type": "content", "content": "x"}},
    {
        "stream": True,
        "stream_options": {"include_usage": True},
        "edgespec": {"rounds": True, "token_ids": True, "draft": "off"},
    },
]


@pytest.mark.parametrize("request_", ACCEPTED)
def test_what_is_served_is_described(request_: dict[str, object]) -> None:
    whole = {"messages": MESSAGES, **request_}
    parse_chat(Fields(whole), DEFAULTS)
    validator("ChatRequest").validate(whole)
