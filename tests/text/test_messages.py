from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.errors import BadInput
from edgespec.text.messages import MAX_DEPTH, Message, Tool, ToolCall, depth_of, read_object

CALL = ToolCall("1", "f", "{}")


@pytest.mark.parametrize(
    ("role", "calls", "call_id", "why"),
    [
        ("user<|im_end|>", (), "", "system, user or assistant"),
        ("user", (CALL,), "", "only the assistant"),
        ("tool", (), "", "the id of its call"),
        ("assistant", (), "1", "the id of its call"),
    ],
)
def test_what_no_message_is(role: str, calls: tuple[ToolCall, ...], call_id: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        Message(role, "x", calls, call_id)


def test_messages_with_calls_and_results() -> None:
    assert Message("assistant", "", (CALL,)).calls == (CALL,)
    assert Message("tool", "x", call_id="1").call_id == "1"


@pytest.mark.parametrize("name", ["", "a b", 'a"', "a" * 65, "é", "a\n"])
def test_names_are_written_as_they_stand_so_they_are_not_free(name: str) -> None:
    with pytest.raises(BadInput, match="letters, digits"):
        Tool(name)
    with pytest.raises(BadInput, match="letters, digits"):
        ToolCall("1", name, "{}")


def test_a_tool_without_parameters_takes_none() -> None:
    assert Tool("f").schema == {"type": "object", "properties": {}}
    assert Tool("f", "", '{"a": 1}').schema == {"a": 1}


@pytest.mark.parametrize(
    "text", ["", "[]", "3", "{", '{"a": NaN}', '{"a": 1e999}', '{"a": "\\ud800"}', '{"a": ' * 70 + "1" + "}" * 70]
)
def test_arguments_and_parameters_are_objects(text: str) -> None:
    with pytest.raises(BadInput, match="of f"):
        ToolCall("1", "f", text)
    if text:
        with pytest.raises(BadInput, match="of f"):
            Tool("f", "", text)


@pytest.mark.parametrize("kind", ['"array"', '["object", "null"]', "3"])
def test_arguments_have_names_so_their_schema_is_an_objects(kind: str) -> None:
    with pytest.raises(BadInput, match="the parameters of f: their type is"):
        Tool("f", "", f'{{"type": {kind}}}')
    assert Tool("f", "", '{"type": "object"}').schema == {"type": "object"}


def test_any_depth_ends_in_a_refusal() -> None:
    for n in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(BadInput, match="nested too deeply"):
            read_object('{"a": ' * n + "1" + "}" * n, "the arguments")
    assert read_object('{"a": ' * MAX_DEPTH + "1" + "}" * MAX_DEPTH, "the arguments")


def deepest(value: object) -> int:
    """The twin of `depth_of`, by recursion."""
    if isinstance(value, dict):
        return 1 + max((deepest(one) for one in value.values()), default=0)
    return 1 + max((deepest(one) for one in value), default=0) if isinstance(value, list) else 0


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
)


@given(JSON)
def test_depth_counts_objects_and_lists_within_each_other(value: object) -> None:
    assert depth_of(json.loads(json.dumps(value))) == deepest(value)
