"""The messages of a chat request, as OpenAI's API writes them, as what a chat template reads. Knows no template."""

from __future__ import annotations

from edgespec.server.fields import Fields
from edgespec.server.refusals import Refusal, unsupported
from edgespec.text.template import Message

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_TOOL_ROLES = ("tool", "function")
_KNOWN = ("role", "content", "name", "refusal", "annotations", "audio", "tool_calls", "function_call", "tool_call_id")


def parse_messages(request: Fields) -> tuple[Message, ...]:
    """Raises Refusal, which names the message."""
    messages = tuple(_message(fields) for fields in request.objects("messages"))
    if not messages:
        raise Refusal(
            "messages",
            "there are none",
            'give at least [{"role": "user", "content": ...}]',
            code="missing_required_parameter",
            param="messages",
        )
    return messages


def _message(fields: Fields) -> Message:
    fields.only(_KNOWN)
    role = fields.text("role")
    if role in _TOOL_ROLES or fields.items("tool_calls") or fields.has("function_call"):
        path = fields.path("role" if role in _TOOL_ROLES else "tool_calls")
        raise unsupported(path, "tools are not served", "leave messages about tools out", path)
    if role not in _ROLES:
        raise fields.refuse("role", f"there is no role {role[:40]!r}", f"give one of {', '.join(_ROLES)}")
    return Message(_ROLES[role], content_text(fields, "content"))


def content_text(fields: Fields, name: str) -> str:
    """A text, or the texts of a list of parts joined. Raises Refusal for parts that are no text."""
    if not isinstance(fields.value(name), list):
        return fields.text(name)
    texts = []
    for part in fields.objects(name):
        kind = part.text("type")
        if kind not in ("text", "refusal"):
            path = part.path("type")
            raise unsupported(path, f"parts of the kind {kind[:40]!r} are not served", "send text only", path)
        texts.append(part.text(kind))
    return "".join(texts)
