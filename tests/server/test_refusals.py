from __future__ import annotations

import json

import pytest

from edgespec.errors import (
    BadInput,
    ContextOverflow,
    EdgeSpecError,
    EngineFailure,
    MissingExtra,
    NotEnoughMemory,
    PairMismatch,
)
from edgespec.server.refusals import Refusal, about, busy, closing, error_body, error_headers, refusal_of, unsupported

PARTS = ("a 7", "it is odd", "take an 8")


@pytest.mark.parametrize(
    ("error", "status", "kind", "code"),
    [
        (BadInput(*PARTS), 400, "invalid_request_error", "invalid_value"),
        (ContextOverflow(*PARTS), 400, "invalid_request_error", "context_length_exceeded"),
        (NotEnoughMemory(*PARTS), 503, "server_error", "out_of_memory"),
        (MissingExtra(*PARTS), 501, "server_error", "not_installed"),
        (EngineFailure(*PARTS), 500, "server_error", "engine_failure"),
        (PairMismatch(*PARTS), 500, "server_error", "engine_failure"),
        (Refusal(*PARTS, status=401, code="x"), 401, "authentication_error", "x"),
        (Refusal(*PARTS, status=403, code="x"), 403, "permission_error", "x"),
    ],
)
def test_every_error_has_a_status_and_a_body(error: EdgeSpecError, status: int, kind: str, code: str) -> None:
    refusal = refusal_of(error)
    assert refusal.status == status
    said = {"message": "a 7: it is odd; take an 8.", "type": kind, "param": None, "code": code}
    assert json.loads(error_body(refusal)) == {"error": said}


def test_what_a_request_said_is_not_repeated_at_length() -> None:
    message = json.loads(error_body(Refusal("x" * 10**6, "it is odd", "take another")))["error"]["message"]
    assert message.endswith("xxx...: it is odd; take another.")
    assert len(message) < 500


def test_a_bad_input_may_be_said_to_be_about_a_parameter() -> None:
    with pytest.raises(Refusal, match="a 7: it is odd") as refused, about("tools"):
        raise BadInput(*PARTS)
    assert (refused.value.param, refused.value.code, refused.value.status) == ("tools", "invalid_value", 400)
    with pytest.raises(ContextOverflow), about("tools"):
        raise ContextOverflow(*PARTS)


def test_who_comes_too_early_is_told_when_to_come_again() -> None:
    refusal = busy("3 requests", "that is all", 7)
    assert (refusal.status, error_headers(refusal)) == (429, {"retry-after": "7"})
    assert "ask again in 7 s" in str(refusal)
    assert error_headers(closing()) == {}


def test_what_is_not_served_names_its_field() -> None:
    body = json.loads(error_body(unsupported("n", "why", "remedy", "n")))
    assert (body["error"]["param"], body["error"]["code"]) == ("n", "unsupported_parameter")
