from __future__ import annotations

import pytest

from edgespec.engine import Engine
from edgespec.errors import BadInput
from edgespec.server.running import listen
from tests.server.serving import port_is_open, running


def test_a_free_port_is_taken_and_freed(engine: Engine) -> None:
    with running(engine) as server:
        assert server.listens()
        with pytest.raises(BadInput, match=f"port {server.port}"):
            listen("127.0.0.1", server.port)
    assert not port_is_open(server.port)
    listen("127.0.0.1", server.port).close()


@pytest.mark.parametrize("host", ["no-such-host.invalid", "203.0.113.7", "a" * 300])
def test_where_nothing_can_listen_is_said(host: str) -> None:
    with pytest.raises(BadInput, match="cannot listen on"):
        listen(host, 0)


def test_loopback_has_two_families() -> None:
    with listen("::1", 0) as six, listen("localhost", 0) as four:
        assert six.getsockname()[0] == "::1"
        assert four.getsockname()[1] > 0


def test_a_model_whose_file_has_no_readable_name_is_served(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "name", "to\udcffy")  # as Python reads a name that is not UTF-8
    with running(engine) as server, server.http() as http:
        assert http.get("/health").json()["model"] == "to?y"
        assert http.get("/v1/models/to%3Fy").status_code == 200
        assert http.post("/v1/completions", json={"prompt": "a", "max_tokens": 1}).json()["model"] == "to?y"


def test_a_template_that_is_not_there_is_said_before_anything_is_served(engine: Engine) -> None:
    with pytest.raises(BadInput, match="none-such"), running(engine, template="none-such"):
        raise AssertionError
