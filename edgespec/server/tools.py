"""The functions that a chat request offers and how freely the model may call them; calls on their way to the client.

Contract: text that a stream has sent is never part of a call. Knows no engine and no template.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from edgespec.errors import BadInput
from edgespec.events import Piece
from edgespec.server.fields import Fields, kind_of
from edgespec.server.refusals import unsupported
from edgespec.text.grammar import Grammar, GrammarKind
from edgespec.text.messages import Tool
from edgespec.text.toolcalls import CallForm, Spoken, call_grammar, free_grammar, n_certain, read_calls

# As in OpenAI's API; the prompt has to hold them all.
MAX_TOOLS = 128
TOOL_FIELDS = ("type", "function")
FUNCTION_FIELDS = ("name", "description", "parameters", "strict")


class ToolChoice(str, Enum):
    """The API's words. A function that is named is required, and it is the only one."""

    NONE = "none"
    AUTO = "auto"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class ToolUse:
    """tools: those that the prompt shows. named: the one that must be called, "" for any. several: calls at once."""

    tools: tuple[Tool, ...] = ()
    choice: ToolChoice = ToolChoice.AUTO
    named: str = ""
    several: bool = True

    @property
    def callable(self) -> tuple[Tool, ...]:
        return tuple(tool for tool in self.tools if self.named in ("", tool.name))

    @property
    def names(self) -> frozenset[str]:
        return frozenset(tool.name for tool in self.callable)


NO_TOOLS = ToolUse()


def parse_tools(request: Fields) -> ToolUse:
    """Raises Refusal. Tools that must not be called are not shown."""
    offered = request.objects("tools")
    if len(offered) > MAX_TOOLS:
        raise request.refuse("tools", f"there are {len(offered)}", f"give at most {MAX_TOOLS}")
    tools = tuple(_tool(fields) for fields in offered)
    names = [tool.name for tool in tools]
    if len(set(names)) < len(names):
        raise request.refuse("tools", "two functions have the same name", "rename one")
    choice, named = _choice(request)
    several = request.flag("parallel_tool_calls", True) and not named
    if choice is ToolChoice.REQUIRED and not tools:
        raise request.refuse("tool_choice", "there are no tools", "give some, or leave it out")
    if named and named not in names:
        raise request.refuse("tool_choice", f"no tool has the name {named[:80]!r}", "name one that is given")
    return NO_TOOLS if choice is ToolChoice.NONE or not tools else ToolUse(tools, choice, named, several)


def _choice(request: Fields) -> tuple[ToolChoice, str]:
    choice = request.value("tool_choice")
    if choice is None:
        return ToolChoice.AUTO, ""
    if isinstance(choice, dict):
        wanted = request.inner("tool_choice")
        if wanted.text("type") != "function":
            path = wanted.path("type")
            raise unsupported(path, "the only tools are functions", "set it to 'function'", "tool_choice")
        wanted.only(TOOL_FIELDS)
        function = wanted.inner("function")
        function.only(("name",))
        return ToolChoice.REQUIRED, function.text("name")
    if choice not in list(ToolChoice):
        said = repr(choice[:40]) if isinstance(choice, str) else kind_of(choice)
        raise request.refuse("tool_choice", f"it is {said}", "give none, auto, required or a function")
    return ToolChoice(choice), ""


def _tool(fields: Fields) -> Tool:
    if fields.text("type") != "function":
        raise unsupported(fields.path("type"), "the only tools are functions", "set it to 'function'", "tools")
    fields.only(TOOL_FIELDS)
    function = fields.inner("function")
    function.only(FUNCTION_FIELDS)
    function.flag("strict", False)  # arguments always fit their schema where a grammar makes them
    name = function.text("name")
    function.inner("parameters")
    parameters = json_text(function, "parameters") if function.has("parameters") else ""
    try:
        return Tool(name, function.text("description", ""), parameters)
    except BadInput as error:
        raise function.refuse("parameters" if "parameters" in error.what else "name", error.why, error.remedy) from None


def json_text(fields: Fields, name: str) -> str:
    """An object as it was given. Raises Refusal for one that is nested too deeply."""
    try:
        return json.dumps(fields.value(name))
    except RecursionError:
        raise fields.refuse(name, "it is nested too deeply", "give a simpler one") from None


def prescribed(use: ToolUse, form: CallForm, answer: Grammar | None) -> Grammar | None:
    """What the answer must look like, given what it must look like where it is no call. Raises Refusal."""
    if not use.tools:
        return answer
    if use.choice is ToolChoice.REQUIRED:
        return call_grammar(use.callable, form, use.several)
    if answer is not None and answer.kind is GrammarKind.LARK:
        why = "this server's answers follow a grammar that has no calls"
        raise unsupported("tools", why, "leave them out, or set tool_choice to 'required'", "tools")
    return free_grammar(use.tools, form, use.several, answer)


def taken_apart(text: str, names: Collection[str]) -> Spoken:
    """A whole answer. `names`: the functions that it may call."""
    return read_calls(text, names, _new_id) if names else Spoken(text)


class CallScreen:
    """Holds back the pieces of a stream that may be a call. The plain twin is `taken_apart`."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._text = ""
        self._n_given = 0
        self._held: list[Piece] = []

    def push(self, pieces: Sequence[Piece]) -> list[Piece]:
        """Those that are text whatever follows."""
        self._held += pieces
        self._text += "".join(piece.text for piece in pieces)
        n = n_certain(self._text) if self._names else len(self._text)
        given: list[Piece] = []
        while self._held and self._n_given + len(self._held[0].text) <= n:
            given.append(self._held.pop(0))
            self._n_given += len(given[-1].text)
        return given

    def finish(self) -> tuple[list[Piece], Spoken]:
        """What was held back, without the text of calls, and the whole. Pieces keep their tokens."""
        spoken = taken_apart(self._text, self._names)
        if not spoken.calls:
            return self._held, spoken
        rest = spoken.text[self._n_given :]
        return [replace(piece, text="" if place else rest) for place, piece in enumerate(self._held)], spoken


def _new_id() -> str:
    return f"call_{secrets.token_hex(12)}"
