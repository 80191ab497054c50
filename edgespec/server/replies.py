"""What answers hold, as JSON schemas beside `bodies`, which writes them. Plain data, for the page.

Contract: no answer has a field that is not named here, and none lacks one that is required.
"""

from __future__ import annotations

from edgespec.server.parameters import ARGUMENTS, NAME, NULL, STRING, Schema, object_of, optional

WHOLE: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "number"}
FLAG: Schema = {"type": "boolean"}


def all_of(properties: dict[str, Schema], without: tuple[str, ...] = ()) -> Schema:
    """These fields, all of them but those in `without` always there."""
    return object_of(properties, tuple(name for name in properties if name not in without))


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def list_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def counts(*names: str) -> dict[str, Schema]:
    return dict.fromkeys(names, WHOLE)


ERROR = all_of(
    {"error": all_of({"message": STRING, "type": STRING, "param": optional(STRING), "code": optional(STRING)})}
)

_PREDICTED = ("accepted_prediction_tokens", "rejected_prediction_tokens")
USAGE = all_of(
    {
        **counts("prompt_tokens", "completion_tokens", "total_tokens"),
        "prompt_tokens_details": all_of(counts("cached_tokens")),
        "completion_tokens_details": all_of(counts("reasoning_tokens", *_PREDICTED), _PREDICTED),
    }
)
TIMINGS = all_of(
    {
        **counts("cache_n", "prompt_n"),
        "prompt_ms": NUMBER,
        "prompt_per_second": NUMBER,
        "predicted_n": WHOLE,
        "predicted_ms": NUMBER,
        "predicted_per_second": NUMBER,
        **counts("draft_n", "draft_n_accepted"),
    }
)
DETAILS: dict[str, Schema] = {
    "seed": WHOLE,
    "exact": FLAG,
    "passes": WHOLE,
    "drafter": STRING,
    "speedup": optional(NUMBER, "Against plain decoding; null where it was not measured."),
    "first_token_ms": NUMBER,
    "notices": list_of(all_of({"code": STRING, "message": STRING})),
}
# Told where they were asked for.
IDS = list_of(WHOLE)
# In a stream: of a run of pieces, of the rounds so far, and at the end of the whole.
STREAM_DETAILS = object_of(
    {**DETAILS, "source": STRING, "n_tokens": WHOLE, "token_ids": IDS, "rounds": {"type": "object"}, "why": STRING}
)

_BYTES = optional(list_of({"type": "integer", "minimum": 0, "maximum": 255}))
_SCORED: dict[str, Schema] = {"token": STRING, "logprob": NUMBER, "bytes": _BYTES}
_CHAT_LOGPROBS = all_of(
    {"content": list_of(all_of({**_SCORED, "top_logprobs": list_of(all_of(_SCORED))})), "refusal": NULL}
)
_TEXT_LOGPROBS = all_of(
    {
        "tokens": list_of(STRING),
        "token_logprobs": list_of(NUMBER),
        "top_logprobs": list_of({"type": "object", "additionalProperties": NUMBER}),
        "text_offset": list_of(WHOLE),
    }
)
_CALL: dict[str, Schema] = {
    "id": STRING,
    "type": {"const": "function"},
    "function": all_of({"name": NAME, "arguments": ARGUMENTS}),
}
_MESSAGE = all_of(
    {
        "role": {"const": "assistant"},
        "content": optional(STRING),
        "refusal": NULL,
        "tool_calls": {**list_of(all_of(_CALL)), "minItems": 1},
    },
    ("tool_calls",),
)
_DELTA = object_of(
    {
        "role": {"const": "assistant"},
        "content": STRING,
        "tool_calls": {**list_of(all_of({"index": WHOLE, **_CALL})), "minItems": 1, "maxItems": 1},
    }
)
_FINISH: Schema = {"enum": ["stop", "length"]}
_CHAT_FINISH: Schema = {"enum": ["stop", "length", "tool_calls"]}


def _answer(kind: str, choices: Schema, **more: Schema) -> dict[str, Schema]:
    return {
        "id": STRING,
        "object": {"const": kind},
        "created": WHOLE,
        "model": STRING,
        "system_fingerprint": STRING,
        "choices": choices,
        **more,
    }


def _whole(kind: str, said: dict[str, Schema], logprobs: Schema, finish: Schema) -> Schema:
    choice = all_of({"index": {"const": 0}, **said, "logprobs": optional(logprobs), "finish_reason": finish})
    choices = {**list_of(choice), "minItems": 1, "maxItems": 1}
    details = all_of({**DETAILS, "token_ids": IDS}, ("token_ids",))
    return all_of(_answer(kind, choices, usage=ref("Usage"), timings=ref("Timings"), edgespec=details))


def _chunk(kind: str, said: dict[str, Schema], logprobs: Schema, finish: Schema) -> Schema:
    """usage: null in all but the last chunk, where it was asked for."""
    choice = all_of({"index": {"const": 0}, **said, "logprobs": optional(logprobs), "finish_reason": optional(finish)})
    choices = {**list_of(choice), "maxItems": 1}
    more = {"usage": optional(ref("Usage")), "timings": ref("Timings"), "edgespec": STREAM_DETAILS}
    return all_of(_answer(kind, choices, **more), tuple(more))


MODEL = all_of({"id": STRING, "object": {"const": "model"}, "created": WHOLE, "owned_by": STRING})
HEALTH = all_of({"status": {"const": "ok"}, "version": STRING, "model": STRING})

SCHEMAS: dict[str, Schema] = {
    "Error": ERROR,
    "Usage": USAGE,
    "Timings": TIMINGS,
    "ChatCompletion": _whole("chat.completion", {"message": _MESSAGE}, _CHAT_LOGPROBS, _CHAT_FINISH),
    "ChatCompletionChunk": _chunk("chat.completion.chunk", {"delta": _DELTA}, _CHAT_LOGPROBS, _CHAT_FINISH),
    "Completion": _whole("text_completion", {"text": STRING}, _TEXT_LOGPROBS, _FINISH),
    "CompletionChunk": _chunk("text_completion", {"text": STRING}, _TEXT_LOGPROBS, _FINISH),
    "Model": MODEL,
    "Models": all_of({"object": {"const": "list"}, "data": list_of(ref("Model"))}),
    "Health": HEALTH,
}
