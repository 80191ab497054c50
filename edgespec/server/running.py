"""One server from its socket to its end: listens, announces itself, serves, cancels what runs when it shall end."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

import uvicorn

from edgespec.engine import Engine
from edgespec.errors import BadInput
from edgespec.server.access import Access, is_address
from edgespec.server.app import Service, make_app
from edgespec.server.desk import Desk, Limits
from edgespec.server.metrics import Metrics
from edgespec.server.reading import PromptReader
from edgespec.server.scores import Spelling
from edgespec.server.wire import Defaults

# Connections that wait to be taken on; beyond them the system refuses.
BACKLOG = 128
# Ctrl-C: answers were cancelled, so that this is for the last bytes of their streams.
CLOSING_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Serving:
    """How a model is served. template: another chat template, by name or file."""

    access: Access
    limits: Limits
    defaults: Defaults
    template: str | None = None


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises BadInput when that cannot be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        found = socket.getaddrinfo(host, port, family if is_address(host) else 0, socket.SOCK_STREAM)
        return socket.create_server(found[0][4][:2], family=found[0][0], backlog=BACKLOG)
    except (OSError, OverflowError, UnicodeError) as error:
        why = str(error.strerror or error) if isinstance(error, OSError) else str(error)
        raise BadInput(f"cannot listen on {host}, port {port}", why, "choose another with --port or --host") from error


class Server(uvicorn.Server):
    """uvicorn's, which cancels answers before it waits for their connections. `announce` is called once it serves."""

    def __init__(self, config: uvicorn.Config, desk: Desk, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._desk = desk
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._desk.close()
        await super().shutdown(sockets)
        await self._desk.settled()


def make_server(engine: Engine, serving: Serving, announce: Callable[[], None] = lambda: None) -> Server:
    """Run it with `server.run(sockets=[listen(...)])`; `server.should_exit = True` ends it, from any thread. Raises
    BadInput for a template that cannot be read.
    """
    metrics = Metrics()
    desk = Desk(engine, PromptReader(engine, serving.template), serving.limits, metrics)
    name = engine.name.encode(errors="replace").decode()  # a file's name may hold bytes that are no text
    service = Service(desk, metrics, name, serving.defaults, int(time.time()), Spelling(engine.vocab))
    config = uvicorn.Config(
        make_app(service, serving.access),
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level=logging.WARNING,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=CLOSING_SECONDS,
    )
    return Server(config, desk, announce)
