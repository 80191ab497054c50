"""The page that describes the server: OpenAPI 3.1, from the same data that the parsers read.

Contract: it names every path of the server, every parameter, and every status that a request can end with. Says nothing
of the model but that there is one.
"""

from __future__ import annotations

from edgespec import __version__
from edgespec.server.parameters import CALL, CHAT, MESSAGE, STRING, TEXT, TOOL, Schema, request_schema
from edgespec.server.replies import SCHEMAS, ref

PATH = "/openapi.json"
JSON = "application/json"
EVENTS = "text/event-stream"

# What each status means, with OpenAI's error body.
ERRORS = {
    400: "The request is wrong; `param` names the field.",
    401: "The key is missing or wrong.",
    403: "The Host header names another server, or a page of others asks.",
    404: "There is no such thing.",
    408: "The body did not come in time.",
    413: "The body is too long.",
    415: "The body is not JSON by its header.",
    429: "As many answers are under way as this server takes; `retry-after` says when to come again.",
    500: "The engine failed.",
    501: "Something that is needed is not installed.",
    503: "The server is shutting down, or there is not enough memory.",
}
_ANSWERING = (400, 401, 403, 408, 413, 415, 429, 500, 501, 503)


def openapi() -> Schema:
    """The whole page."""
    requests = {"ChatRequest": request_schema(CHAT, "messages"), "CompletionRequest": request_schema(TEXT, "prompt")}
    parts = {"Message": MESSAGE, "Tool": TOOL, "Call": CALL}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "edgespec",
            "version": __version__,
            "description": "A local language model: OpenAI's API, with llama.cpp's samplers and timings.",
        },
        "paths": _paths(),
        "components": {
            "schemas": {**requests, **parts, **SCHEMAS},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        # A server without a key asks for none.
        "security": [{}, {"key": []}],
    }


def _paths() -> dict[str, Schema]:
    models = _get("List the one model that is served.", _json("Models"))
    model = _get("Describe the model.", _json("Model"), (401, 403, 404))
    file = _get(
        "A file of the chat page.", _text("text/html", "text/css", "text/javascript", "image/svg+xml"), (403, 404)
    )
    return {
        "/v1/chat/completions": {"post": _post("Answer a chat.", "Chat")},
        "/v1/completions": {"post": _post("Go on with a text.", "")},
        "/v1/models": {"get": models},
        "/v1/models/{name}": {"parameters": [_in_path("name")], "get": model},
        "/health": {
            "get": _open(_get("Whether this is the server that is meant, and alive.", _json("Health"), (403,)))
        },
        "/metrics": {"get": _get("Counters and times, as Prometheus reads them.", _text("text/plain"))},
        PATH: {"get": _get("This page.", {JSON: {"schema": {"type": "object"}}})},
        "/": {"get": _open(_get("The chat page.", _text("text/html"), (403,)))},
        "/page/{name}": {"parameters": [_in_path("name")], "get": _open(file)},
    }


def _post(summary: str, kind: str) -> Schema:
    answer = {**_json(f"{kind}Completion"), EVENTS: {"schema": _event(f"{kind}CompletionChunk")}}
    said = "The answer; with `stream` the events that make it, an error among them if it fails late, and `[DONE]`."
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": _json(f"{kind or 'Completion'}Request")},
        "responses": {"200": {"description": said, "content": answer}, **_errors(_ANSWERING)},
    }


def _event(chunk: str) -> Schema:
    """Of each server-sent event. An error is the last one that comes."""
    content = {"anyOf": [ref(chunk), ref("Error")]}
    json_text: Schema = {"type": "string", "contentMediaType": JSON, "contentSchema": content}
    data: Schema = {"anyOf": [{"const": "[DONE]"}, json_text]}
    return {"type": "object", "properties": {"data": data}, "required": ["data"]}


def _get(summary: str, content: Schema, errors: tuple[int, ...] = (401, 403)) -> Schema:
    answer: Schema = {"description": summary, "content": content}
    return {"summary": summary, "responses": {"200": answer, **_errors(errors)}}


def _open(operation: Schema) -> Schema:
    """Needs no key."""
    return {**operation, "security": []}


def _errors(statuses: tuple[int, ...]) -> Schema:
    return {str(status): {"description": ERRORS[status], "content": _json("Error")} for status in statuses}


def _json(name: str) -> Schema:
    return {JSON: {"schema": ref(name)}}


def _text(*kinds: str) -> Schema:
    return {kind: {"schema": STRING} for kind in kinds}


def _in_path(name: str) -> Schema:
    return {"name": name, "in": "path", "required": True, "schema": STRING}
