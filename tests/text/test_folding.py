from __future__ import annotations

import json

import pytest

from edgespec.errors import BadInput
from edgespec.text.folding import call_text, fold_system, fold_tools
from edgespec.text.messages import Message, Tool, ToolCall
from edgespec.text.toolcalls import read_calls

WEATHER = Tool("weather", "The weather of a town", '{"type": "object", "properties": {"town": {"type": "string"}}}')
TIME = Tool("time")
CALL = ToolCall("1", "weather", '{"town": "Ulm {é}"}')
SECOND = ToolCall("2", "time", "{}")


def test_system_texts_go_into_the_next_user_message() -> None:
    messages = [Message("system", "S"), Message("system", "T"), Message("user", "U"), Message("assistant", "A")]
    assert fold_system(messages) == [Message("user", "S\n\nT\n\nU"), messages[3]]
    assert fold_system(messages[:1]) == [Message("user", "S")]


@pytest.mark.parametrize("system", [(), (Message("system", "Be kind."),)])
def test_tools_are_told_in_the_system_message(system: tuple[Message, ...]) -> None:
    told, asked = fold_tools([*system, Message("user", "U")], [WEATHER, TIME])
    assert (told.role, asked) == ("system", Message("user", "U"))
    assert told.content.startswith("Be kind.\n\n") is bool(system)
    lines = [line for line in told.content.splitlines() if line.startswith('{"name": "weather"')]
    assert json.loads(lines[0])["parameters"] == WEATHER.schema


def test_without_tools_nothing_is_told() -> None:
    messages = [Message("user", "U"), Message("assistant", "A")]
    assert fold_tools(messages, ()) == messages


def test_calls_and_results_become_turns() -> None:
    messages = [
        Message("user", "U"),
        Message("assistant", "Let me see.", (CALL, SECOND)),
        Message("tool", "rain", call_id="1"),
        Message("tool", "noon", call_id="2"),
        Message("user", "And?"),
    ]
    asked, called, answered = fold_tools(messages, ())
    assert asked == messages[0]
    assert called == Message("assistant", f"Let me see.\n{call_text(CALL)}\n{call_text(SECOND)}")
    assert answered == Message("user", "Result of weather:\nrain\n\nResult of time:\nnoon\n\nAnd?")


def test_the_form_that_is_told_is_one_that_is_read() -> None:
    spoken = read_calls(call_text(CALL), {"weather"}, lambda: "1")
    assert spoken.calls == (CALL,)


def test_a_result_needs_a_call_before_it() -> None:
    messages = [Message("tool", "rain", call_id="1"), Message("assistant", "", (CALL,))]
    with pytest.raises(BadInput, match="no message before it"):
        fold_tools(messages, ())
