"""A server in a thread, on a free port, and what tests ask of it."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from edgespec.engine import Engine, GenerateOptions
from edgespec.server.access import Access
from edgespec.server.desk import Limits
from edgespec.server.running import Serving, listen, make_server
from edgespec.server.wire import Defaults

DEADLINE_SECONDS = 30.0
GREEDY = Defaults(GenerateOptions(max_tokens=24), seed=0)


@dataclass(frozen=True, slots=True)
class Running:
    """Stopped when its context is left; `stop` asks for it earlier."""

    url: str
    port: int
    stop: Callable[[], None]

    def http(self, **headers: str) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers=headers, timeout=DEADLINE_SECONDS, trust_env=False)

    def send(self, path: str, **body: object) -> socket.socket:
        """A request whose answer nobody reads yet; closing the socket hangs up."""
        content = json.dumps(body)
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        sent = socket.create_connection(("127.0.0.1", self.port), DEADLINE_SECONDS)
        sent.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n{content}".encode())
        return sent

    def listens(self) -> bool:
        return port_is_open(self.port)

    def n_open(self) -> int:
        """Answers under way and waiting."""
        return int(self.metric("edgespec_open_requests"))

    def metric(self, sample: str) -> float:
        with self.http() as client:
            lines = client.get("/metrics").text.splitlines()
        return next(float(line.rpartition(" ")[2]) for line in lines if line.rpartition(" ")[0] == sample)


@contextmanager
def running(
    engine: Engine,
    access: Access | None = None,
    limits: Limits | None = None,
    defaults: Defaults = GREEDY,
    template: str | None = None,
) -> Iterator[Running]:
    begun = threading.Event()
    serving = Serving(access or Access(), limits or Limits(), defaults, template)
    with listen("127.0.0.1", 0) as listening:
        server = make_server(engine, serving, begun.set)
        thread = threading.Thread(target=lambda: server.run(sockets=[listening]))
        port = listening.getsockname()[1]

        def stop() -> None:
            server.should_exit = True

        thread.start()
        try:
            assert begun.wait(DEADLINE_SECONDS)
            yield Running(f"http://127.0.0.1:{port}", port, stop)
        finally:
            stop()
            thread.join(DEADLINE_SECONDS)
    assert not thread.is_alive()


def port_is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return False
    return True


def until(true: Callable[[], bool]) -> None:
    """Wait for something that another thread or process brings about."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not true():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.01)
