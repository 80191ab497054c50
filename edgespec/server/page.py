"""The chat page: its files, read once, and the headers that keep it to this server.

Contract: GET and HEAD of whole files by their exact names, with an ETag; nothing else of the disk can be asked for.
Knows no key: the page holds nothing secret, what it asks for does.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

PREFIX = "/page/"
INDEX = "index.html"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Whatever gets into the page can load nothing, run nothing and send nothing anywhere but here.
_POLICY = "; ".join(
    [
        "default-src 'none'",
        *(f"{kind}-src 'self'" for kind in ("script", "style", "connect", "img")),
        *(f"{what} 'none'" for what in ("base-uri", "form-action", "frame-ancestors")),
    ]
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",  # asked for again each time, and answered by 304 as long as it is the same
}


@dataclass(frozen=True, slots=True)
class PageFile:
    body: bytes
    media_type: str
    etag: str


def page_routes() -> list[Route]:
    """`/` and every file of the page under `/page/`."""
    known = read_page(page_folder())

    async def answer(request: Request) -> Response:
        found = known.get(request.path_params.get("name", INDEX))
        if found is None:
            raise HTTPException(404)
        return _response(found, request.headers.get("if-none-match", ""))

    return [Route("/", answer), Route(PREFIX + "{name:path}", answer)]


def is_page(path: str) -> bool:
    return path == "/" or path.startswith(PREFIX)


def page_folder() -> Path:
    return folder_of(Path(str(files("edgespec"))))


def folder_of(package: Path) -> Path:
    """Inside the package, or beside it in a source tree."""
    installed = package / "apps" / "page"
    return installed if installed.is_dir() else package.parent / "apps" / "page"


def read_page(folder: Path) -> dict[str, PageFile]:
    """By name."""
    return {path.name: _read(path) for path in folder.iterdir() if path.suffix in _TYPES}


def _read(path: Path) -> PageFile:
    body = path.read_bytes()
    return PageFile(body, _TYPES[path.suffix], f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def _response(found: PageFile, known_etags: str) -> Response:
    headers = {**_HEADERS, "etag": found.etag}
    # A proxy that compresses marks the tag as weak; it is the same file for us.
    if found.etag in (tag.strip().removeprefix("W/") for tag in known_etags.split(",")):
        return Response(status_code=304, headers=headers)
    return Response(found.body, headers={**headers, "content-type": found.media_type})
