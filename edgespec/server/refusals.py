"""What a client is told when a request fails: OpenAI's error body with an HTTP status.

Knows no routes and no engine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from edgespec.errors import BadInput, ContextOverflow, EdgeSpecError, MissingExtra, NotEnoughMemory

# The API's names for whose fault it is.
_CLIENT, _SERVER = "invalid_request_error", "server_error"
# Of each part of a message: what a request repeats back to its sender can be megabytes.
_MOST_CHARACTERS = 400
_KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class Refusal(EdgeSpecError):
    """A request that is not served. `param` names the field at fault, `code` the reason, for programs."""

    def __init__(
        self, what: str, why: str, remedy: str, status: int = 400, code: str | None = None, param: str | None = None
    ) -> None:
        super().__init__(what, why, remedy)
        self.status = status
        self.code = code
        self.param = param
        self.retry_after_seconds: int | None = None


def unsupported(what: str, why: str, remedy: str, param: str) -> Refusal:
    """For what the API knows and this server does not do."""
    return Refusal(what, why, remedy, code="unsupported_parameter", param=param)


def busy(what: str, why: str, retry_after_seconds: int) -> Refusal:
    refusal = Refusal(what, why, f"ask again in {retry_after_seconds} s", status=429, code="server_busy")
    refusal.retry_after_seconds = retry_after_seconds
    return refusal


def closing() -> Refusal:
    """An answer that the server itself ended."""
    return Refusal("the answer was dropped", "the server is shutting down", "ask again", status=503, code="closing")


@contextmanager
def about(param: str) -> Iterator[None]:
    """Names the parameter that a BadInput inside is about."""
    try:
        yield
    except BadInput as error:
        raise Refusal(error.what, error.why, error.remedy, code="invalid_value", param=param) from None


def refusal_of(error: EdgeSpecError) -> Refusal:
    """How any error of edgespec looks from outside."""
    if isinstance(error, Refusal):
        return error
    status, code = 500, "engine_failure"
    if isinstance(error, ContextOverflow):
        status, code = 400, "context_length_exceeded"
    elif isinstance(error, BadInput):
        status, code = 400, "invalid_value"
    elif isinstance(error, MissingExtra):
        status, code = 501, "not_installed"
    elif isinstance(error, NotEnoughMemory):
        status, code = 503, "out_of_memory"
    return Refusal(error.what, error.why, error.remedy, status, code)


def error_body(refusal: Refusal) -> bytes:
    """{"error": {message, type, param, code}} in UTF-8."""
    kind = _KINDS.get(refusal.status, _CLIENT if refusal.status < 500 else _SERVER)
    short = EdgeSpecError(*(_shortened(part) for part in (refusal.what, refusal.why, refusal.remedy)))
    error = {"message": str(short), "type": kind, "param": refusal.param, "code": refusal.code}
    return json.dumps({"error": error}, ensure_ascii=False).encode()


def _shortened(part: str) -> str:
    return part if len(part) <= _MOST_CHARACTERS else f"{part[:_MOST_CHARACTERS]}..."


def error_headers(refusal: Refusal) -> dict[str, str]:
    if refusal.retry_after_seconds is not None:
        return {"retry-after": str(refusal.retry_after_seconds)}
    return {"www-authenticate": "Bearer"} if refusal.status == 401 else {}
