"""Calls of functions in what a model says: how they are read, and the grammar that makes it say them.

Contract: what is no call of an offered function is text, character for character. `n_certain` never takes back what it
has let through. Knows no template and no tokens.

The forms are those that published chat templates train: `<tool_call>{...}</tool_call>` (Hermes, Qwen), one bare object
with `parameters` (Llama 3.x) or `arguments`, and a list of such objects (Mistral).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import Enum

from edgespec.text.grammar import Grammar, GrammarKind
from edgespec.text.messages import MAX_DEPTH, Tool, ToolCall, depth_of

BEGIN, END = "<tool_call>", "</tool_call>"
_BLANKS = " \t\r\n"
# These decide which properties an object has, so a schema with one of them is not closed from outside.
_OPENERS = ("additionalProperties", "patternProperties", "unevaluatedProperties", "allOf", "anyOf", "oneOf", "$ref")
# JSON as models write it. Schemas of tools describe more than they demand: what the library lacks is passed over.
_STYLE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": ", "lenient": True}


class CallForm(Enum):
    """How a template writes calls. TOLD: it does not, so the model is told in the system message how to."""

    TAGGED = "tagged"
    PARAMETERS = "parameters"
    LISTED = "listed"
    BARE = "bare"
    TOLD = "told"


@dataclass(frozen=True, slots=True)
class Spoken:
    """An answer taken apart: the text, and the calls."""

    text: str
    calls: tuple[ToolCall, ...] = ()


def read_calls(text: str, names: Collection[str], new_id: Callable[[], str]) -> Spoken:
    """`names`: the functions that were offered. Tagged calls may follow text; bare ones are the whole answer."""
    found, end = _bare(text, names)
    if found:
        return Spoken("", _identified(found, new_id))
    begin = text.find(BEGIN)
    found, end = _tagged(text, begin, names) if begin >= 0 else ([], 0)
    if not found:
        return Spoken(text)
    rest = text[end:] if text[end:].strip() else ""
    return Spoken(text[:begin].rstrip(_BLANKS) + rest, _identified(found, new_id))


def form_of(rendered: str, name: str) -> CallForm:
    """The form in which a prompt holds a call of the function `name`, whose one parameter has that name too."""
    call = rf'\{{[^{{}}]*"name": ?"{name}"[^{{}}]*"(?P<key>arguments|parameters)": ?\{{"{name}"'
    found = re.search(rf"(?P<tag>{BEGIN})?\s*(?P<json>(?P<list>\[)?\s*{call})", rendered)
    if found is None:
        return CallForm.TOLD
    if found["tag"]:
        return CallForm.TAGGED
    _, end = _value(rendered, found.start("json"))
    tag = re.search(r"<(\w+)>\s*\Z", rendered[: found.start("json")])
    if tag and rendered.startswith(f"</{tag[1]}>", _after_blanks(rendered, end)):  # tags that nobody here reads
        return CallForm.TOLD
    if found["list"]:
        return CallForm.LISTED
    return CallForm.PARAMETERS if found["key"] == "parameters" else CallForm.BARE


def n_certain(text: str) -> int:
    """How many characters of an unfinished answer are text, whatever follows."""
    if text.lstrip(_BLANKS)[:1] in ("", "{", "["):
        return 0
    begin = text.find(BEGIN)
    if begin < 0:
        begin = len(text) - max(n for n in range(len(BEGIN)) if text.endswith(BEGIN[:n]))
    return len(text[:begin].rstrip(_BLANKS))


# -- reading ------------------------------------------------------------------------------------------------------

_Found = tuple[str, str]  # name, arguments


def _no_constant(name: str) -> float:
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def _value(text: str, at: int) -> tuple[object, int]:
    """The JSON value that begins at a place, and where it ends; None for what is none."""
    try:
        return _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None, at


def _after_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    return at


def _bare(text: str, names: Collection[str]) -> tuple[list[_Found], int]:
    """The whole text is one call, a list of calls, or calls with semicolons between, as Llama 3 writes several."""
    found: list[_Found] = []
    at = _after_blanks(text, 0)
    while at < len(text):
        value, end = _value(text, at)
        calls = [_call(one, names) for one in (value if isinstance(value, list) else [value])]
        found += [call for call in calls if call is not None]
        if not calls or None in calls:
            return [], 0
        at = _after_blanks(text, end)
        if text[at : at + 1] == ";":
            at = _after_blanks(text, at + 1)
    return found, at


def _tagged(text: str, at: int, names: Collection[str]) -> tuple[list[_Found], int]:
    """Calls in tags from a place on, and where the last one ends. The last end tag may be missing."""
    found: list[_Found] = []
    end_of_calls = at
    while text.startswith(BEGIN, at):
        value, end = _value(text, _after_blanks(text, at + len(BEGIN)))
        call = _call(value, names)
        end = _after_blanks(text, end)
        if call is None or not (end == len(text) or text.startswith(END, end)):
            break
        found.append(call)
        end_of_calls = min(len(text), end + len(END))
        at = _after_blanks(text, end_of_calls)
    return found, end_of_calls


def _call(value: object, names: Collection[str]) -> _Found | None:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or value["name"] not in names:
        return None
    arguments = value.get("arguments", value.get("parameters"))
    if isinstance(arguments, str):  # some models quote them as the API does
        arguments, _ = _value(arguments, 0)
    if not isinstance(arguments, dict) or depth_of(arguments) > MAX_DEPTH:
        return None
    try:
        text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
        text.encode()
    except ValueError:  # 1e999 is read as infinity, and half of a pair is no text
        return None
    return value["name"], text


def _identified(found: Sequence[_Found], new_id: Callable[[], str]) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(new_id(), name, arguments) for name, arguments in found)


# -- grammars -----------------------------------------------------------------------------------------------------

_MORE = '("\\n" call)*'


def _spelled(tool: Tool, key: str) -> str:
    """A call whose frame is text: everything up to the arguments is certain once the name is."""
    head = _quoted(f'{{"name": "{tool.name}", "{key}": ')
    return f"{head} {_json(_closed(tool.schema))} {_quoted('}')}"


def _whole_json(tool: Tool, key: str) -> str:
    """A call whose frame is part of the schema. Needed beside other JSON, since the library's lexer never goes back: it
    would take the beginning of the frame for the whole of it.
    """
    schema = _closed(tool.schema)
    shared: dict[str, object] = {name: schema.pop(name) for name in ("$defs", "definitions") if name in schema}
    properties = {"name": {"const": tool.name}, key: schema}
    call = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return _json({**call, **shared})


def call_grammar(tools: Sequence[Tool], form: CallForm, several: bool) -> Grammar:
    """A call of one of the tools and nothing else; `several` allows more of them where the form can tell them apart."""
    more = _MORE if several and form is CallForm.TAGGED else ""
    return _grammar(f"start: call {more}", tools, form)


def free_grammar(tools: Sequence[Tool], form: CallForm, several: bool, answer: Grammar | None = None) -> Grammar | None:
    """Text, or calls whose arguments fit their schemas. `answer`: the JSON schema of an answer that is no call.

    None where it cannot be prescribed without forbidding what the model was trained to say: the templates of the other
    forms may open a call with a special token, which no grammar allows.
    """
    if answer is not None:
        assert answer.kind is GrammarKind.JSON_SCHEMA
        return _grammar(f"start: said | call\nsaid: {_json(json.loads(answer.text))}", tools, form, _whole_json)
    if form is CallForm.TAGGED:
        more = _MORE if several else ""
        said = f"SAID: /(?s:.*)/ & ~/(?s:.*){BEGIN}(?s:.*)/\nhead[lazy]: /(?s:.*){BEGIN}/"
        return _grammar(f"start: SAID | head rest {more}\n{said}", tools, form)
    if form is CallForm.TOLD:
        names = "|".join(tool.name for tool in tools)
        return _grammar(f'start: SAID | call\nSAID: /(?s:.*)/ & ~/\\{{"name": "({names})"(?s:.*)/', tools, form)
    return None


def _grammar(
    start: str, tools: Sequence[Tool], form: CallForm, spelled: Callable[[Tool, str], str] = _spelled
) -> Grammar:
    """`start` has the rules that lead to `call`, or to `rest`, which is a call without its opening tag."""
    key = "parameters" if form is CallForm.PARAMETERS else "arguments"
    opening, closing = {CallForm.TAGGED: ("\n", f"\n{END}"), CallForm.LISTED: ("[", "]")}.get(form, ("", ""))
    begin = f"{_quoted(BEGIN)} " if form is CallForm.TAGGED else ""
    around = (f"{_quoted(opening)} ", f" {_quoted(closing)}") if opening else ("", "")
    lines = [start, f"call: {begin}rest", "rest: " + " | ".join(f"call{n}" for n in range(len(tools)))]
    lines += [f"call{n}: {around[0]}{spelled(tool, key)}{around[1]}" for n, tool in enumerate(tools)]
    return Grammar.lark("\n".join(lines), "the tools")


def _closed(schema: dict[str, object]) -> dict[str, object]:
    """An object, and without parameters that it does not name unless it says so itself."""
    closed = {"type": "object", **schema}
    if not any(name in schema for name in _OPENERS):
        closed["additionalProperties"] = False
    return closed


def _json(schema: dict[str, object]) -> str:
    return "%json " + json.dumps({"x-guidance": _STYLE, **schema})


def _quoted(text: str) -> str:
    return json.dumps(text)
