from __future__ import annotations

import pytest

from edgespec.server.fields import Fields
from edgespec.server.messages import parse_messages
from edgespec.server.refusals import Refusal
from edgespec.text.template import Message


def parsed(*messages: object) -> tuple[Message, ...]:
    return parse_messages(Fields({"messages": list(messages)}))


def test_roles_and_contents() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert parsed(
        {"role": "developer", "content": "be kind"},
        {"role": "user", "content": parts, "name": "Ann"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
    ) == (Message("system", "be kind"), Message("user", "ab"), Message("assistant", "no"))


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "king", "content": "x"}, "messages[0].role"),
        ({"content": "x"}, "messages[0].role"),
        ({"role": "user"}, "messages[0].content"),
        ({"role": "user", "content": 3}, "messages[0].content"),
        ({"role": "user", "content": "x", "colour": 1}, "messages[0].colour"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "messages[0].content[0].type"),
        ({"role": "tool", "content": "x", "tool_call_id": "1"}, "messages[0].role"),
        ({"role": "assistant", "content": "", "tool_calls": [{}]}, "messages[0].tool_calls"),
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
