from __future__ import annotations

import pytest

from edgespec.server.fields import Fields
from edgespec.server.messages import parse_messages
from edgespec.server.refusals import Refusal
from edgespec.text.messages import Message, ToolCall

CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}


def calling(name: str, arguments: str) -> dict[str, object]:
    return {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": name, "arguments": arguments}}]}


def parsed(*messages: object) -> tuple[Message, ...]:
    return parse_messages(Fields({"messages": list(messages)}))


def test_roles_and_contents() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert parsed(
        {"role": "developer", "content": "be kind"},
        {"role": "user", "content": parts, "name": "Ann"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
    ) == (Message("system", "be kind"), Message("user", "ab"), Message("assistant", "no"))


def test_calls_and_their_results() -> None:
    first, second = ToolCall("1", "f", '{"a": 1}'), ToolCall("2", "g", "{}")
    empty = {"id": "2", "type": "function", "function": {"name": "g", "arguments": ""}}
    assert parsed(
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [CALL, empty]},
        {"role": "tool", "tool_call_id": "2", "content": [{"type": "text", "text": "b"}]},
        {"role": "tool", "tool_call_id": "1", "content": "a"},
        {"role": "assistant", "content": "done", "tool_calls": []},
    ) == (
        Message("user", "hi"),
        Message("assistant", "", (first, second)),
        Message("tool", "b", call_id="2"),
        Message("tool", "a", call_id="1"),
        Message("assistant", "done"),
    )


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "king", "content": "x"}, "messages[0].role"),
        ({"content": "x"}, "messages[0].role"),
        ({"role": "user"}, "messages[0].content"),
        ({"role": "user", "content": 3}, "messages[0].content"),
        ({"role": "user", "content": "x", "colour": 1}, "messages[0].colour"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "messages[0].content[0].type"),
        ({"role": "function", "name": "f", "content": "x"}, "messages[0].role"),
        ({"role": "assistant", "content": "", "function_call": {"name": "f"}}, "messages[0].function_call"),
        ({"role": "tool", "content": "x"}, "messages[0].tool_call_id"),
        ({"role": "tool", "content": "x", "tool_call_id": ""}, "messages[0].tool_call_id"),
        ({"role": "tool", "content": "x", "tool_call_id": "1"}, "messages[0].tool_call_id"),
        ({"role": "user", "content": "x", "tool_calls": [CALL]}, "messages[0].tool_calls"),
        ({"role": "assistant"}, "messages[0].content"),
        ({"role": "assistant", "tool_calls": [{}]}, "messages[0].tool_calls[0].function.name"),
        ({"role": "assistant", "tool_calls": [{**CALL, "id": None}]}, "messages[0].tool_calls[0].id"),
        ({"role": "assistant", "tool_calls": [{**CALL, "type": "custom"}]}, "messages[0].tool_calls[0].type"),
        (calling("f g", "{}"), "messages[0].tool_calls[0].function.name"),
        (calling("f", "[1]"), "messages[0].tool_calls[0].function.arguments"),
        (calling("f", '{"a": '), "messages[0].tool_calls[0].function.arguments"),
        (calling("f", '{"a": NaN}'), "messages[0].tool_calls[0].function.arguments"),
        (calling("f", '{"a": "\\ud800"}'), "messages[0].tool_calls[0].function.arguments"),
        (calling("f", '{"a": ' + "[" * 100 + "]" * 100 + "}"), "messages[0].tool_calls[0].function.arguments"),
        ("hello", "messages[0]"),
    ],
)
def test_what_is_wrong_is_named(message: object, param: str) -> None:
    with pytest.raises(Refusal) as refused:
        parsed(message)
    assert refused.value.param == param


def test_no_messages_are_refused() -> None:
    for request in (Fields({}), Fields({"messages": []})):
        with pytest.raises(Refusal, match="there are none"):
            parse_messages(request)
