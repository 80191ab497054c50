"""What requests may hold: every parameter by name, with its JSON schema. Plain data, for the parsers and for the page.

Contract: the parsers know the names from here, so that a parameter cannot be read and not be described; a value that a
schema does not allow is refused. Not every value that it allows is served: some parameters only go with others.
"""

from __future__ import annotations

from edgespec.engine.options import MAX_TOP_LOGPROBS
from edgespec.server.messages import CALL_FIELDS, CALLED_FIELDS, MESSAGE_FIELDS, PART_KINDS, WITHOUT_EFFECT
from edgespec.server.tools import FUNCTION_FIELDS, MAX_TOOLS, TOOL_FIELDS, ToolChoice
from edgespec.text.messages import FUNCTION_NAME

Schema = dict[str, object]

# More are no use, and each costs time at every character.
MAX_STOPS = 16
# Reading a stop takes a second for each million characters, and no answer is waited for meanwhile that could say them.
MAX_STOP_CHARACTERS = 4096
ANYTHING: Schema = {}
NULL: Schema = {"type": "null"}
STRING: Schema = {"type": "string"}


def optional(schema: Schema, description: str = "") -> Schema:
    """null means that a parameter is left out."""
    return {"anyOf": [schema, NULL], **({"description": description} if description else {})}


def whole(description: str = "", **limits: int) -> Schema:
    return optional({"type": "integer", **limits}, description)


def number(description: str = "") -> Schema:
    return optional({"type": "number"}, description)


def flag(description: str = "") -> Schema:
    return optional({"type": "boolean"}, description)


def text(description: str = "") -> Schema:
    return optional(STRING, description)


def object_of(properties: dict[str, Schema], required: tuple[str, ...] = ()) -> Schema:
    """These fields and no others."""
    named: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**named, "required": list(required)} if required else named


# -- parts of requests --------------------------------------------------------------------------------------------

PARTS: Schema = {
    "type": "array",
    "items": {
        "anyOf": [
            {"type": "object", "properties": {"type": {"const": kind}, kind: STRING}, "required": ["type", kind]}
            for kind in PART_KINDS
        ]
    },
}
CONTENT: Schema = {"anyOf": [STRING, PARTS], "description": "A text, or a list of parts that are texts."}
NOT_HERE: Schema = {"anyOf": [NULL, {"type": "array", "maxItems": 0}]}
NAME: Schema = {"type": "string", "pattern": f"^{FUNCTION_NAME.pattern}$"}
ARGUMENTS: Schema = {"type": "string", "description": "A JSON object as text."}
CALLED = object_of(dict(zip(CALLED_FIELDS, (NAME, ARGUMENTS), strict=True)), CALLED_FIELDS)
CALL = object_of(
    dict(zip(CALL_FIELDS, (STRING, optional({"const": "function"}), CALLED), strict=True)), ("id", "function")
)
CALLS: Schema = {"type": "array", "items": {"$ref": "#/components/schemas/Call"}}


def _message(roles: list[str], required: tuple[str, ...], **fields: Schema) -> Schema:
    usual = {"tool_calls": NOT_HERE, "tool_call_id": NULL, "function_call": NULL}
    free = dict.fromkeys(WITHOUT_EFFECT, ANYTHING)
    given: dict[str, Schema] = {"role": {"enum": roles}, "content": CONTENT, **usual, **free, **fields}
    return object_of({name: given[name] for name in (*MESSAGE_FIELDS, *WITHOUT_EFFECT)}, ("role", *required))


MESSAGE: Schema = {
    "anyOf": [
        _message(["system", "developer", "user", "assistant"], ("content",)),
        _message(["assistant"], ("tool_calls",), content=optional(CONTENT), tool_calls={**CALLS, "minItems": 1}),
        _message(["tool"], ("content", "tool_call_id"), tool_call_id={"type": "string", "minLength": 1}),
    ]
}
_FUNCTION = object_of(
    dict(
        zip(
            FUNCTION_FIELDS,
            (
                NAME,
                text(),
                optional({"type": "object"}, "A JSON schema."),
                flag("Without effect: arguments follow their schema wherever a grammar can make them."),
            ),
            strict=True,
        )
    ),
    ("name",),
)
TOOL = object_of(dict(zip(TOOL_FIELDS, ({"const": "function"}, _FUNCTION), strict=True)), TOOL_FIELDS)
TOOL_CHOICE: Schema = {
    "anyOf": [
        {"enum": [None, *(choice.value for choice in ToolChoice)]},
        object_of(
            dict(zip(TOOL_FIELDS, ({"const": "function"}, object_of({"name": STRING}, ("name",))), strict=True)),
            TOOL_FIELDS,
        ),
    ],
    "description": "With auto the answer is text or calls; with required, or a function's name, a call. The tools of "
    "none are not shown to the model.",
}
STOP: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_STOP_CHARACTERS}
STREAM_OPTIONS: dict[str, Schema] = {"include_usage": flag(), "include_obfuscation": ANYTHING}
PREDICTION: dict[str, Schema] = {"type": {"const": "content"}, "content": CONTENT}
OWN: dict[str, Schema] = {
    "draft": text("Who guesses: auto, off, or names of drafters with '+' between them."),
    "exact": flag("Bit for bit what plain decoding says, whatever is drafted."),
    "verify": text("How guesses are checked."),
    "rounds": flag("The stream tells what comes of the drafts."),
    "token_ids": flag("The numbers of the answer's tokens go into the reply's `edgespec` object."),
}
JSON_SCHEMA: dict[str, Schema] = {
    "name": STRING,
    "schema": {"type": "object"},
    "description": ANYTHING,
    "strict": ANYTHING,
}
RESPONSE_FORMAT: dict[str, Schema] = {
    "type": {"enum": [None, "text", "json_object"]},
    "json_schema": ANYTHING,
}
_BY_SCHEMA: Schema = {"type": {"const": "json_schema"}, "json_schema": object_of(JSON_SCHEMA, ("name", "schema"))}
FORM: Schema = {
    "anyOf": [NULL, object_of(RESPONSE_FORMAT), {**object_of({}), "properties": _BY_SCHEMA, "required": [*_BY_SCHEMA]}]
}

# -- requests -----------------------------------------------------------------------------------------------------

SHARED: dict[str, Schema] = {
    "model": text("Any name: there is one model."),
    "stream": flag("Answer by server-sent events."),
    "stream_options": optional(object_of(STREAM_OPTIONS)),
    "max_tokens": whole(minimum=1),
    "temperature": number("0 takes the likeliest token."),
    "top_p": number(),
    "n": {"enum": [1, None]},
    "stop": optional({"anyOf": [STOP, {"type": "array", "items": STOP, "maxItems": MAX_STOPS}]}),
    "seed": whole(minimum=-(2**63), maximum=2**64 - 1),
    "presence_penalty": number(),
    "frequency_penalty": number(),
    "logit_bias": optional(
        {
            "type": "object",
            "patternProperties": {"^[0-9]{1,10}$": number()},
            "additionalProperties": False,
        },
        "From the numbers of tokens to what is added to their logits.",
    ),
    "prediction": optional(object_of(PREDICTION, ("type", "content")), "What the answer may repeat."),
    "edgespec": optional(object_of(OWN), "What only this server has."),
    "top_k": whole(),
    "min_p": number(),
    "repeat_penalty": number(),
    "repeat_last_n": whole(),
}
CHAT: dict[str, Schema] = {
    "messages": {"type": "array", "items": {"$ref": "#/components/schemas/Message"}, "minItems": 1},
    "max_completion_tokens": whole("Wins over max_tokens.", minimum=1),
    "logprobs": flag(),
    "top_logprobs": whole("Needs logprobs.", minimum=0, maximum=MAX_TOP_LOGPROBS),
    "response_format": FORM,
    "tools": optional({"type": "array", "items": {"$ref": "#/components/schemas/Tool"}, "maxItems": MAX_TOOLS}),
    "tool_choice": TOOL_CHOICE,
    "parallel_tool_calls": flag("false for at most one call where a grammar makes it."),
}
_TOKENS: Schema = {"type": "array", "items": {"type": "integer"}}
TEXT: dict[str, Schema] = {
    "prompt": {
        "anyOf": [
            STRING,
            _TOKENS,
            {"type": "array", "items": {"anyOf": [STRING, _TOKENS]}, "minItems": 1, "maxItems": 1},
        ],
        "description": "A text, its tokens, or a list of one of these.",
    },
    "logprobs": whole("How many likeliest tokens to tell in each place.", minimum=-1, maximum=MAX_TOP_LOGPROBS),
    "best_of": {"enum": [1, None]},
    "echo": {"enum": [False, None]},
    "suffix": {"enum": ["", None]},
}
# About accounts, caches and how much a reasoning model thinks: whatever their value, the answer is the same.
NO_EFFECT = (
    "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
    "reasoning_effort", "verbosity",
)  # fmt: skip
# Why each of them is refused.
REFUSED = {
    "audio": "there is no sound",
    "modalities": "there is text only",
    "functions": "they are served as tools",
    "function_call": "functions are served as tools",
    "web_search_options": "there is no network",
}


def request_schema(own: dict[str, Schema], required: str) -> Schema:
    """Of a whole request."""
    free: dict[str, Schema] = {name: {"description": "Accepted, without effect."} for name in NO_EFFECT}
    refused: dict[str, Schema] = {name: {**NULL, "description": f"Refused: {why}."} for name, why in REFUSED.items()}
    refused["modalities"] = {"enum": [None, ["text"]]}
    return object_of({**own, **SHARED, **free, **refused}, (required,))
