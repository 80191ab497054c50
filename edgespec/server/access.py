"""Who may ask: the Host header, the page that a browser request comes from, and the key. ASGI middleware.

A page on the web can make a browser send requests to this machine, under a name of its own that it has pointed here
(DNS rebinding). So the Host header must name this server, a browser's Origin must be this server's own page or one that
was allowed, and bodies must be JSON, which browsers do not send elsewhere unasked. Knows no routes but the open ones.
"""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from edgespec.errors import BadInput
from edgespec.server.page import is_page
from edgespec.server.refusals import Refusal, error_body, error_headers

# A program that waits for the server, or asks which one it is, may have no key yet.
OPEN_PATH = "/health"


@dataclass(frozen=True, slots=True)
class Access:
    """host: where the server listens. names: further names it is called by. origins: pages of other servers that may
    ask. key: "" for none. Raises BadInput for an open door: another host than loopback without a key.
    """

    host: str = "127.0.0.1"
    names: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    key: str = ""

    def __post_init__(self) -> None:
        if not self.key and not is_loopback(self.host):
            why = "others could reach it, and there is no key"
            raise BadInput(f"--host {self.host}", why, "give one in EDGESPEC_KEY, or keep to 127.0.0.1")
        if not self.key.isascii() or self.key != self.key.strip():
            raise BadInput("the key", "a header cannot carry it as it is", "use letters and digits")

    def knows(self, host: str) -> bool:
        """Whether a Host header names this server. Addresses do: only a name can be pointed somewhere else."""
        name = host_name(host)
        return name in ("localhost", self.host.lower(), *(one.lower() for one in self.names)) or is_address(name)

    def welcomes(self, origin: str, host: str) -> bool:
        """Whether a page of this origin may ask."""
        return "*" in self.origins or origin in (*self.origins, f"http://{host}", f"https://{host}")

    def admits(self, authorization: str) -> bool:
        """Takes equally long for every wrong key of a length."""
        scheme, _, given = authorization.partition(" ")
        right = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self.key.encode())
        return not self.key or (right and scheme.lower() == "bearer")


def is_loopback(host: str) -> bool:
    return host.lower() == "localhost" or (is_address(host) and ipaddress.ip_address(host.strip("[]")).is_loopback)


def is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def host_name(host: str) -> str:
    """A Host header without its port."""
    if host.startswith("["):
        return host.partition("]")[0][1:].lower()
    return host.partition(":")[0].lower()


class HostCheck:
    """Outermost: answers nothing to who does not mean this server."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(Headers(scope=scope)) if scope["type"] == "http" else None
        await (refused(refusal) if refusal else self._app)(scope, receive, send)

    def _refusal(self, headers: Headers) -> Refusal | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._access.knows(host):
            remedy = "use localhost or an address, or start the server with --allow-host"
            return Refusal(f"Host {host[:80]!r}", "this server has another name", remedy, 403, "host_not_allowed")
        if origin is not None and not self._access.welcomes(origin, host):
            remedy = "start the server with --allow-origin"
            return Refusal(f"Origin {origin[:80]!r}", "pages of others may not ask", remedy, 403, "origin_not_allowed")
        return None


class KeyCheck:
    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = None
        if scope["type"] == "http" and scope["path"] != OPEN_PATH and not is_page(scope["path"]):
            authorization = Headers(scope=scope).get("authorization", "")
            if not self._access.admits(authorization):
                what = "the key" if authorization else "the request"
                why = "it is not this server's" if authorization else "it has no key"
                refusal = Refusal(what, why, "send 'Authorization: Bearer KEY'", 401, "invalid_api_key")
        await (refused(refusal) if refusal else self._app)(scope, receive, send)


def refused(refusal: Refusal) -> Response:
    return Response(error_body(refusal), refusal.status, error_headers(refusal), "application/json")
