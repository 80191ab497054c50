from __future__ import annotations

import socket

import httpx
import openai
import pytest
from openai import OpenAI

from edgespec.engine import Engine
from edgespec.errors import BadInput
from edgespec.server.access import Access, host_name, is_loopback
from tests.server.serving import Running, running

KEY = "a-key-of-this-test"


# -- the rules --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "my-machine", "127.0.0.1.evil.example"])
def test_another_host_than_loopback_needs_a_key(host: str) -> None:
    with pytest.raises(BadInput, match="there is no key"):
        Access(host)
    assert Access(host, key=KEY).admits(f"Bearer {KEY}")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost", "LOCALHOST"])
def test_loopback_needs_none(host: str) -> None:
    assert is_loopback(host)
    assert Access(host).admits("")


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("localhost", True),
        ("localhost:80", True),
        ("127.0.0.1:8317", True),
        ("[::1]:8317", True),
        ("10.0.0.7:1", True),
        ("desk.local:8317", True),
        ("DESK.local", True),
        ("evil.example:8317", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("", False),
        ("[::1", True),
    ],
)
def test_a_host_header_must_name_this_server(host: str, known: bool) -> None:
    assert Access(names=("Desk.local",)).knows(host) is known


def test_the_host_it_listens_on_is_a_name_of_it() -> None:
    assert Access("box", key=KEY).knows("box:8317")
    assert host_name("[fe80::1]:5") == "fe80::1"


@pytest.mark.parametrize(
    ("origin", "welcome"),
    [
        ("http://localhost:5", True),
        ("https://app.example", True),
        ("http://localhost:6", False),
        ("https://app.example.evil", False),
        ("null", False),
    ],
)
def test_a_page_must_be_the_servers_own_or_allowed(origin: str, welcome: bool) -> None:
    assert Access(origins=("https://app.example",)).welcomes(origin, "localhost:5") is welcome
    assert Access(origins=("*",)).welcomes(origin, "localhost:5")


@pytest.mark.parametrize(
    ("header", "admitted"),
    [(f"Bearer {KEY}", True), (f"bearer {KEY}", True), (f"Basic {KEY}", False), (KEY, False), ("Bearer é", False)],
)
def test_the_key_must_be_the_servers(header: str, admitted: bool) -> None:
    assert Access(key=KEY).admits(header) is admitted
    assert not Access(key=KEY).admits("Bearer ")


@pytest.mark.parametrize("key", ["käse", " x", "x\n"])
def test_a_key_that_no_header_carries_is_refused(key: str) -> None:
    with pytest.raises(BadInput, match="header"):
        Access(key=key)


# -- over HTTP --------------------------------------------------------------------------------------------------


def test_with_a_key_everything_but_health_needs_it(engine: Engine) -> None:
    with running(engine, Access(key=KEY)) as server:
        with server.http() as stranger:
            assert stranger.get("/health").status_code == 200
            refusals = [stranger.get("/v1/models"), stranger.get("/metrics"), stranger.post("/v1/completions")]
        assert {one.status_code for one in refusals} == {401}
        assert refusals[0].headers["www-authenticate"] == "Bearer"
        assert refusals[0].json()["error"]["code"] == "invalid_api_key"
        with OpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0) as friend:
            assert friend.models.list().data[0].id == engine.name
        thief = OpenAI(base_url=f"{server.url}/v1", api_key="wrong", max_retries=0)
        with thief, pytest.raises(openai.AuthenticationError):
            thief.models.list()


def test_another_host_header_gets_nothing(server: Running) -> None:
    with server.http(host="evil.example") as rebound:
        for response in (rebound.get("/health"), rebound.get("/v1/models"), rebound.get("/nothing")):
            assert response.status_code == 403
            assert response.json()["error"]["code"] == "host_not_allowed"
    with socket.create_connection(("127.0.0.1", server.port), 10.0) as old:
        old.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        assert b" 403 " in old.recv(100)


def test_pages_of_others_may_not_ask_unless_allowed(server: Running, engine: Engine) -> None:
    page = "https://app.example"
    with server.http(origin=page) as browser:
        assert browser.post("/v1/completions", json={"prompt": "a"}).status_code == 403
        assert "access-control-allow-origin" not in browser.options("/v1/completions").headers
    with server.http(origin=server.url) as own:
        assert own.get("/v1/models").status_code == 200
    with running(engine, Access(origins=(page,), key=KEY)) as open_one:
        with open_one.http(origin=page) as browser:
            asks = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
            preflight = browser.options("/v1/completions", headers=asks)
            refused = browser.get("/v1/models")
        assert allowed(preflight) == allowed(refused) == page
        assert (preflight.status_code, refused.status_code) == (200, 401)
        with open_one.http(origin="https://other.example") as other:
            assert other.get("/health").status_code == 403


def allowed(response: httpx.Response) -> str:
    return response.headers["access-control-allow-origin"]
