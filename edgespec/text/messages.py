"""What a chat is made of: messages, the functions a model may call, and its calls. Plain frozen data.

Knows no template and no model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from edgespec.errors import BadInput

ROLES = ("system", "user", "assistant", "tool")
# A name is written into prompts and grammars as it stands; these are also the names that OpenAI's API allows.
FUNCTION_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
# Templates walk through arguments and schemas by recursion, and so does what guards them.
MAX_DEPTH = 64


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call. parameters: a JSON schema as text; "" for a function that takes none.

    Raises BadInput for a name that is not 1 to 64 of a-z, A-Z, 0-9, _ and -, and for parameters that are no object.
    """

    name: str
    description: str = ""
    parameters: str = ""

    def __post_init__(self) -> None:
        _check_name(self.name)
        kind = read_object(self.parameters, f"the parameters of {self.name}").get("type") if self.parameters else None
        if kind not in (None, "object"):  # a call names its arguments: no other shape can be one
            why = f"their type is {json.dumps(kind)[:80]}"
            raise BadInput(f"the parameters of {self.name}", why, 'describe them by {"type": "object", ...}')

    @property
    def schema(self) -> dict[str, object]:
        """The parameters; of a function that takes none the schema of an empty object."""
        if not self.parameters:
            return {"type": "object", "properties": {}}
        return read_object(self.parameters, f"the parameters of {self.name}")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model calls a function. arguments: a JSON object as text. Raises BadInput for what cannot be one."""

    id: str
    name: str
    arguments: str

    def __post_init__(self) -> None:
        _check_name(self.name)
        read_object(self.arguments, f"the arguments of {self.name}")


@dataclass(frozen=True, slots=True)
class Message:
    """One turn. calls: those of an assistant's message. call_id: which call a tool's message is the result of.

    Raises BadInput for a role that is not in ROLES (a role is template text, so it is not free), and for calls and
    results in messages of other roles.
    """

    role: str
    content: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            why = "a message is said by system, user or assistant, or is the result of a tool"
            raise BadInput(f"role {self.role!r}", why, "use one of these")
        if self.calls and self.role != "assistant":
            raise BadInput(f"a message of role {self.role!r}", "only the assistant calls functions", "leave calls out")
        if bool(self.call_id) != (self.role == "tool"):
            why = "the result of a tool, and nothing else, has the id of its call"
            raise BadInput(f"a message of role {self.role!r}", why, "give call_id with role 'tool' only")


def read_object(text: str, what: str) -> dict[str, object]:
    """Raises BadInput for text that is no JSON object of well-formed texts and finite numbers, or that is nested too
    deeply. `what` names it.
    """
    try:
        value = json.loads(text, parse_constant=_no_constant)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:
        raise BadInput(what, f"they are no JSON: {error}", "give a JSON object") from error
    except RecursionError:
        raise BadInput(what, "they are nested too deeply", "give a simpler object") from None
    if not isinstance(value, dict):
        raise BadInput(what, "they are no JSON object", "give one")
    if depth_of(value) > MAX_DEPTH:
        raise BadInput(what, "they are nested too deeply", "give a simpler object")
    return value


def depth_of(value: object) -> int:
    """How many objects and lists lie within each other, counted as far as MAX_DEPTH + 1."""
    level, depth = [value], 0
    while depth <= MAX_DEPTH:
        inner: list[object] = []
        for one in level:
            inner += one.values() if isinstance(one, Mapping) else one if isinstance(one, list) else ()
        if not any(isinstance(one, (Mapping, list)) for one in level):
            return depth
        level, depth = inner, depth + 1
    return depth


def unknown_call(call_id: str) -> BadInput:
    """For a result that belongs to no call before it."""
    why = "no message before it makes that call"
    return BadInput(f"the result of call {call_id[:80]!r}", why, "give the assistant's message with its calls too")


def _check_name(name: str) -> None:
    if not FUNCTION_NAME.fullmatch(name):
        raise BadInput(f"function {name[:80]!r}", "its name has other than letters, digits, _ and -", "rename it")


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not allowed")
