"""Messages for templates that lack something: no place for a system message, no words for tools and their calls.

Plain functions of messages. Knows no template.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from edgespec.text.messages import Message, Tool, ToolCall, unknown_call

# What a model is told that was never shown calls. The form is the one that text.toolcalls reads and prescribes.
_TOLD = """You can call functions. These are the functions, a line of JSON for each:
{functions}

To call a function, answer with one JSON object and nothing else, in this form:
{{"name": "the function's name", "arguments": {{"a parameter's name": "its value"}}}}
The result then comes with the next message. Where no function is needed, answer in words."""
_RESULT = "Result of {name}:\n{content}"


def fold_system(messages: Sequence[Message]) -> list[Message]:
    """System texts go to the head of the next user message."""
    folded: list[Message] = []
    waiting: list[str] = []
    for message in messages:
        if message.role == "system":
            waiting.append(message.content)
        elif message.role == "user" and waiting:
            folded.append(Message("user", "\n\n".join([*waiting, message.content])))
            waiting = []
        else:
            folded.append(message)
    return folded + ([Message("user", "\n\n".join(waiting))] if waiting else [])


def fold_tools(messages: Sequence[Message], tools: Sequence[Tool]) -> list[Message]:
    """Tools are told in the system message, calls become JSON that the assistant says, and results what the user says.

    Results and what the user says next become one message, since many templates demand that roles take turns.
    """
    names: dict[str, str] = {}
    folded: list[Message] = []
    after_result = False
    for message in messages:
        names.update({call.id: call.name for call in message.calls})
        plain = _plain(message, names)
        if after_result and plain.role == "user":
            plain = Message("user", f"{folded.pop().content}\n\n{plain.content}")
        folded.append(plain)
        after_result = message.role == "tool"
    return _with_told(folded, tools) if tools else folded


def call_text(call: ToolCall) -> str:
    """As the model was told to write it."""
    return f'{{"name": {json.dumps(call.name)}, "arguments": {call.arguments}}}'


def function_of(tool: Tool) -> dict[str, object]:
    """The description of a function that templates and models know."""
    return {"name": tool.name, "description": tool.description, "parameters": tool.schema}


def _plain(message: Message, names: dict[str, str]) -> Message:
    if message.role == "tool":
        if message.call_id not in names:
            raise unknown_call(message.call_id)
        return Message("user", _RESULT.format(name=names[message.call_id], content=message.content))
    if message.calls:
        said = [message.content] if message.content else []
        return Message("assistant", "\n".join([*said, *map(call_text, message.calls)]))
    return message


def _with_told(messages: list[Message], tools: Sequence[Tool]) -> list[Message]:
    functions = "\n".join(json.dumps(function_of(tool), ensure_ascii=False) for tool in tools)
    told = _TOLD.format(functions=functions)
    if messages and messages[0].role == "system":
        return [replace(messages[0], content=f"{messages[0].content}\n\n{told}"), *messages[1:]]
    return [Message("system", told), *messages]
