"""The messages of a chat request, as OpenAI's API writes them, as what a chat template reads. Knows no template.

Contract: every result of a tool is that of a call in a message before it.
"""

from __future__ import annotations

from edgespec.errors import BadInput
from edgespec.server.fields import Fields
from edgespec.server.refusals import Refusal, unsupported
from edgespec.text.messages import Message, ToolCall

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
# Of the second kind, whatever their value, the prompt is the same.
MESSAGE_FIELDS = ("role", "content", "tool_calls", "tool_call_id", "function_call")
WITHOUT_EFFECT = ("name", "refusal", "annotations", "audio")
CALL_FIELDS = ("id", "type", "function")
CALLED_FIELDS = ("name", "arguments")
PART_KINDS = ("text", "refusal")


def parse_messages(request: Fields) -> tuple[Message, ...]:
    """Raises Refusal, which names the message."""
    messages: list[Message] = []
    called: set[str] = set()
    for fields in request.objects("messages"):
        message = _message(fields)
        called.update(call.id for call in message.calls)
        if message.call_id and message.call_id not in called:
            raise fields.refuse("tool_call_id", "no message before it makes that call", "give its message too")
        messages.append(message)
    if not messages:
        raise Refusal(
            "messages",
            "there are none",
            'give at least [{"role": "user", "content": ...}]',
            code="missing_required_parameter",
            param="messages",
        )
    return tuple(messages)


def _message(fields: Fields) -> Message:
    fields.only((*MESSAGE_FIELDS, *WITHOUT_EFFECT))
    role = fields.text("role")
    if role == "function" or fields.has("function_call"):
        path = fields.path("role" if role == "function" else "function_call")
        raise unsupported(path, "functions are served as tools", "use tool_calls and role 'tool'", path)
    if role not in ROLES:
        raise fields.refuse("role", f"there is no role {role[:40]!r}", f"give one of {', '.join(ROLES)}")
    calls = tuple(_call(one) for one in fields.objects("tool_calls"))
    if calls and role != "assistant":
        raise fields.refuse("tool_calls", "only the assistant calls tools", "leave it out")
    if fields.has("tool_call_id") and role != "tool":
        raise fields.refuse("tool_call_id", "only the result of a tool has one", "leave it out")
    call_id = _call_id(fields) if role == "tool" else ""
    # The API lets an assistant say nothing beside its calls.
    content = "" if calls and not fields.has("content") else content_text(fields, "content")
    return Message(ROLES[role], content, calls, call_id)


def _call_id(fields: Fields) -> str:
    call_id = fields.text("tool_call_id")
    if not call_id:
        raise fields.refuse("tool_call_id", "it is empty", "give the id of the call")
    return call_id


def _call(fields: Fields) -> ToolCall:
    fields.only(CALL_FIELDS)
    if fields.text("type", "function") != "function":
        path = fields.path("type")
        raise unsupported(path, "the only tools are functions", "set it to 'function'", path)
    function = fields.inner("function")
    function.only(CALLED_FIELDS)
    # Some clients send nothing for a function that takes nothing.
    name, arguments = function.text("name"), function.text("arguments") or "{}"
    try:
        return ToolCall(fields.text("id"), name, arguments)
    except BadInput as error:
        raise function.refuse("arguments" if "arguments" in error.what else "name", error.why, error.remedy) from None


def content_text(fields: Fields, name: str) -> str:
    """A text, or the texts of a list of parts joined. Raises Refusal for parts that are no text."""
    if not isinstance(fields.value(name), list):
        return fields.text(name)
    texts = []
    for part in fields.objects(name):
        kind = part.text("type")
        if kind not in PART_KINDS:
            path = part.path("type")
            raise unsupported(path, f"parts of the kind {kind[:40]!r} are not served", "send text only", path)
        texts.append(part.text(kind))
    return "".join(texts)
