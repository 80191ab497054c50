"""The page says what the server does: the same paths, and answers that fit it whatever is sent, by schemathesis."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.routing import Route

from edgespec import __version__
from edgespec.engine import Engine, GenerateOptions
from edgespec.server.access import Access
from edgespec.server.app import Service, make_app
from edgespec.server.desk import Desk, Limits
from edgespec.server.metrics import Metrics
from edgespec.server.openapi import ERRORS
from edgespec.server.reading import PromptReader
from edgespec.server.scores import Spelling
from edgespec.server.wire import Defaults
from tests.server.described import page, validator
from tests.server.serving import Running, running

DEFAULTS = Defaults(GenerateOptions(max_tokens=8), seed=0)


def test_every_path_is_described(engine: Engine) -> None:
    desk = Desk(engine, PromptReader(engine), Limits(), Metrics())
    app = make_app(Service(desk, Metrics(), "toy", DEFAULTS, 0, Spelling(engine.vocab)), Access())
    paths = page()["paths"]
    routes = {
        route.path.replace(":path}", "}"): {method.lower() for method in route.methods or ()} - {"head"}
        for route in app.routes
        if isinstance(route, Route)
    }
    posts = {"/v1/chat/completions", "/v1/completions"}
    assert set(paths) == set(routes)
    assert {path: set(described) - {"parameters"} for path, described in paths.items()} == {
        path: {"post"} if path in posts else {"get"} for path in routes
    }
    for path, described in paths.items():
        for operation in described.values():
            if isinstance(operation, dict):
                errors = {int(status) for status in operation["responses"]} - {200}
                assert errors <= set(ERRORS), path


def test_the_page_is_served_and_sound(server: Running) -> None:
    with server.http() as http:
        served = http.get("/openapi.json").json()
    assert served == page()
    assert (served["openapi"], served["info"]["version"]) == ("3.1.0", __version__)
    for name in served["components"]["schemas"]:
        assert validator(name) is not None


def test_the_page_needs_the_key_and_says_which_paths_do_not(engine: Engine) -> None:
    with running(engine, Access(key="secret")) as other, other.http() as http:
        for path, described in page()["paths"].items():
            if "get" in described:
                needs_key = described["get"].get("security") != []
                response = http.get(path.replace("{name}", "x"))
                assert (response.status_code == 401) is needs_key, path


# -- against a running server -------------------------------------------------------------------------------------

CHECKS = [
    not_a_server_error, status_code_conformance, content_type_conformance, response_headers_conformance,
    response_schema_conformance, negative_data_rejection,
]  # fmt: skip


Operation = APIOperation[Any, Any, Any, Any]


def operations() -> list[Operation]:
    found = list(schemathesis.openapi.from_dict(deepcopy(page())).get_all_operations())
    sound = [result.ok() for result in found if isinstance(result, Ok)]
    assert len(sound) == len(found)
    return sound


@pytest.fixture(scope="module")
def terse(engine: Engine) -> Iterator[Running]:
    """Short answers, so that a request costs little."""
    with running(engine, defaults=DEFAULTS) as one:
        yield one


# A path is a text whatever it says, so only bodies can be wrong.
CASES = [
    pytest.param(operation, mode, id=f"{operation.method} {operation.path} {kind}")
    for operation in operations()
    for kind, mode in (("right", GenerationMode.POSITIVE), ("wrong", GenerationMode.NEGATIVE))
    if kind == "right" or operation.method == "post"
]


@pytest.mark.parametrize(("operation", "mode"), CASES)
def test_nothing_that_is_sent_breaks_it_and_answers_are_as_described(
    terse: Running, operation: Operation, mode: GenerationMode
) -> None:
    @settings(
        max_examples=12 if operation.method == "post" else 3,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case: Case[Any]) -> None:
        for name in ("max_tokens", "max_completion_tokens"):
            if isinstance(case.body, dict) and isinstance(most := case.body.get(name), int):
                case.body[name] = min(most, 8)
        statuses.append(case.call_and_validate(base_url=terse.url, checks=CHECKS).status_code)

    statuses: list[int] = []
    check()
    if "{" not in operation.path:  # what is not there was asked for
        assert (200 in statuses) is (mode is GenerationMode.POSITIVE)
    assert terse.n_open() == 0
