"""The routes: OpenAI's chat completions, completions and models, and what watchers read. A starlette application.

Contract: an answer whose client has left, or takes nothing off its connection any more, is cancelled; every error is
OpenAI's body. Knows no process: sockets, signals and parents are another's.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from edgespec.engine import CancelToken
from edgespec.errors import EdgeSpecError
from edgespec.server import openapi
from edgespec.server.access import OPEN_PATH, Access, HostCheck, KeyCheck, refused
from edgespec.server.bodies import Reply, encoded, health_body, model_body, models_body
from edgespec.server.desk import ClientLeft, Desk, Ticket
from edgespec.server.fields import Fields
from edgespec.server.metrics import CONTENT_TYPE, Metrics
from edgespec.server.page import page_routes
from edgespec.server.refusals import Refusal, refusal_of
from edgespec.server.scores import ScoreWriter, Spelling
from edgespec.server.streamed import EventStream, predicted
from edgespec.server.tools import taken_apart
from edgespec.server.wire import Defaults, Wanted, parse_chat, parse_text

Parse = Callable[[Fields, Defaults], Wanted]
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Service:
    """What the routes share. model: its name in answers. created: when the server began, seconds since 1970."""

    desk: Desk
    metrics: Metrics
    model: str
    defaults: Defaults
    created: int
    spelling: Spelling


def make_app(service: Service, access: Access) -> Starlette:
    def route(path: str, endpoint: Callable[[Request], Response]) -> Route:
        async def answer(request: Request) -> Response:
            return endpoint(request)

        return Route(path, answer, methods=["GET"])

    page = encoded(openapi.openapi())
    cors = Middleware(CORSMiddleware, allow_origins=access.origins, allow_methods=["GET", "POST"], allow_headers=["*"])
    return Starlette(
        routes=[
            Route("/v1/chat/completions", Answers(service, parse_chat), methods=["POST"]),
            Route("/v1/completions", Answers(service, parse_text), methods=["POST"]),
            route("/v1/models", lambda _: _json(models_body([service.model], service.created))),
            route("/v1/models/{name:path}", lambda request: _model(service, request.path_params["name"])),
            route(OPEN_PATH, lambda _: _json(health_body(service.model))),
            route("/metrics", lambda _: _metrics(service)),
            route(openapi.PATH, lambda _: _json(page)),
            *page_routes(),
        ],
        middleware=[
            Middleware(HostCheck, access=access),
            *([cors] if access.origins else []),
            Middleware(KeyCheck, access=access),
        ],
        exception_handlers={
            EdgeSpecError: _on_error(service.metrics),
            HTTPException: _on_http_error(service.metrics),
            Exception: _on_defect,
        },
    )


class Answers:
    """One of the two endpoints that answer. `parse` reads its requests."""

    def __init__(self, service: Service, parse: Parse) -> None:
        self._service = service
        self._parse = parse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            body = await _body(
                request, self._service.desk.limits.max_body_bytes, self._service.desk.limits.body_seconds
            )
        except ClientDisconnect:
            return
        # A request of many megabytes takes seconds, in which other streams go on.
        wanted = await asyncio.to_thread(self._wanted, body)
        cancel = CancelToken()
        # A client that takes nothing any more is hung up on by leaving here.
        with suppress(ClientLeft, asyncio.TimeoutError):
            async with cancelling_when_gone(receive, cancel), self._service.desk.answering(wanted, cancel) as ticket:
                await self._respond(wanted, ticket, scope, receive, send)

    def _wanted(self, body: bytes) -> Wanted:
        return self._parse(Fields.parse(body), self._service.defaults)

    async def _respond(self, wanted: Wanted, ticket: Ticket, scope: Scope, receive: Receive, send: Send) -> None:
        name = f"{'chatcmpl' if wanted.is_chat else 'cmpl'}-{secrets.token_hex(12)}"
        reply = Reply(name, int(time.time()), self._service.model, wanted.is_chat, wanted.token_ids)
        scores = None if wanted.n_top_logprobs is None else ScoreWriter(self._service.spelling, wanted.is_chat)
        stalled_seconds = self._service.desk.limits.stalled_seconds
        if wanted.stream:
            await EventStream(reply, wanted.include_usage, stalled_seconds, scores).send(ticket, send)
            return
        completion = await ticket.completion()
        spoken = taken_apart(completion.text, ticket.read.functions)
        response = _json(reply.whole(completion, await predicted(ticket, completion), scores, spoken))
        await asyncio.wait_for(response(scope, receive, send), stalled_seconds)


@asynccontextmanager
async def cancelling_when_gone(receive: Receive, cancel: CancelToken) -> AsyncIterator[None]:
    """Cancels when the client hangs up, also while nothing is sent to it. The body must have been read."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        cancel.cancel()

    watcher = asyncio.create_task(watch())
    try:
        yield
    finally:
        watcher.cancel()
        with suppress(asyncio.CancelledError):
            await watcher


async def _body(request: Request, max_bytes: int, seconds: float) -> bytes:
    """Raises Refusal for what is no JSON by its header, too long or too slow."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        raise Refusal(f"Content-Type {kind[:80]!r}", "requests are JSON", f"send {JSON}", 415, "unsupported_media_type")
    try:
        return await asyncio.wait_for(_read_all(request, max_bytes), seconds)
    except asyncio.TimeoutError:
        why = f"it did not come within {seconds:g} s"
        raise Refusal("the request's body", why, "send it at once", 408, "request_timeout") from None


async def _read_all(request: Request, max_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            why = f"it is longer than {max_bytes} bytes"
            raise Refusal("the request's body", why, "send less", 413, "request_too_large")
    return bytes(body)


def _json(body: bytes) -> Response:
    return Response(body, media_type=JSON)


def _model(service: Service, name: str) -> Response:
    if name != service.model:
        raise Refusal(
            f"model {name[:80]!r}",
            "it is not served here",
            f"ask for {service.model!r}",
            404,
            "model_not_found",
            "model",
        )
    return _json(model_body(name, service.created))


def _metrics(service: Service) -> Response:
    return Response(service.metrics.text(service.desk.n_open), headers={"content-type": CONTENT_TYPE})


def _on_error(metrics: Metrics) -> Callable[[Request, Exception], Response]:
    def handle(_: Request, error: Exception) -> Response:
        assert isinstance(error, EdgeSpecError)
        refusal = refusal_of(error)
        metrics.refused(refusal.status)
        return refused(refusal)

    return handle


def _on_http_error(metrics: Metrics) -> Callable[[Request, Exception], Response]:
    """Starlette's own: no such path, wrong method."""

    def handle(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        metrics.refused(error.status_code)
        what = f"{request.method[:16]} {request.url.path[:80]}"
        response = refused(Refusal(what, error.detail, "see the documentation", error.status_code, "unknown_url"))
        response.headers.update(error.headers or {})
        return response

    return handle


def _on_defect(_: Request, error: Exception) -> Response:
    return refused(Refusal("the server failed", type(error).__name__, "report this", 500, "defect"))
