from __future__ import annotations

import re
from pathlib import Path

import pytest

from edgespec.engine import Engine
from edgespec.server.access import Access
from edgespec.server.page import INDEX, folder_of, is_page, page_folder, read_page
from tests.server.serving import Running, running

KEY = "a-key-of-this-test"
NAMES = sorted(read_page(page_folder()))


def test_the_page_is_there_with_all_it_asks_for() -> None:
    files = read_page(page_folder())
    asked = {INDEX}
    for one in files.values():
        asked |= set(re.findall(r'"(?:/page/|\./)([a-z]+\.[a-z]+)"', one.body.decode()))
    assert asked == set(files)


def test_nothing_of_it_is_from_elsewhere_or_inline() -> None:
    for name, one in read_page(page_folder()).items():
        text = one.body.decode().replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text, name
        assert not re.search(r"style=|\son[a-z]+=|innerHTML|insertAdjacentHTML|document\.write|eval\(", text), name
    assert "<style" not in files_text(INDEX)
    assert re.findall(r"<script[^>]*>[^<]", files_text(INDEX)) == []


def files_text(name: str) -> str:
    return read_page(page_folder())[name].body.decode()


def test_it_is_found_in_a_package_and_beside_one(tmp_path: Path) -> None:
    package = tmp_path / "edgespec"
    assert folder_of(package) == tmp_path / "apps" / "page"
    inside = package / "apps" / "page"
    inside.mkdir(parents=True)
    assert folder_of(package) == inside


def test_its_own_files_only_are_read(tmp_path: Path) -> None:
    for name in ("index.html", "a.js", "notes.txt", ".hidden"):
        (tmp_path / name).write_text(name)
    assert sorted(read_page(tmp_path)) == ["a.js", "index.html"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/", True), ("/page/main.js", True), ("/page/", True), ("/page", False), ("/pages/x", False), ("/v1", False)],
)
def test_which_paths_are_open(path: str, expected: bool) -> None:
    assert is_page(path) is expected


@pytest.mark.parametrize("name", NAMES)
def test_every_file_is_served_with_its_type_and_guarded(server: Running, name: str) -> None:
    with server.http() as http:
        got = http.get(f"/page/{name}")
    types = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    assert got.status_code == 200
    assert got.headers["content-type"].partition(";")[0] == types[name.rpartition(".")[2]]
    assert got.content == (page_folder() / name).read_bytes()
    policy = got.headers["content-security-policy"].split("; ")
    assert "default-src 'none'" in policy
    assert not any("unsafe" in rule or "*" in rule or ":" in rule for rule in policy)
    assert got.headers["x-content-type-options"] == "nosniff"
    assert got.headers["cache-control"] == "no-cache"


def test_the_root_is_the_page(server: Running) -> None:
    with server.http() as http:
        got = http.get("/")
        assert got.content == http.get(f"/page/{INDEX}").content
        head = http.head("/")
    assert head.content == b""
    assert head.headers["content-length"] == str(len(got.content))


def test_a_file_that_is_known_is_not_sent_again(server: Running) -> None:
    with server.http() as http:
        tag = http.get("/page/main.js").headers["etag"]
        assert http.get("/page/page.css").headers["etag"] != tag
        for known in (tag, f'"other", W/{tag}'):
            again = http.get("/page/main.js", headers={"if-none-match": known})
            assert (again.status_code, again.content) == (304, b"")
        assert http.get("/page/main.js", headers={"if-none-match": '"other"'}).status_code == 200


@pytest.mark.parametrize("path", ["/page/none.js", "/page/%2e%2e/pyproject.toml", "/page/"])
def test_nothing_else_is_served(server: Running, path: str) -> None:
    with server.http() as http:
        got = http.get(path)
        assert (got.status_code, got.json()["error"]["code"]) == (404, "unknown_url")
        assert http.post("/", json={}).status_code == 405


def test_the_files_need_no_key_but_the_right_name(engine: Engine) -> None:
    with running(engine, Access(key=KEY)) as locked, locked.http() as http:
        assert http.get("/").status_code == 200
        assert http.get("/page/main.js").status_code == 200
        assert http.get("/v1/models").status_code == 401
        assert http.get("/page/%2e%2e/v1/models").status_code == 404
        assert http.get("/", headers={"host": "evil.example"}).status_code == 403
        assert http.get("/", headers={"origin": "http://evil.example"}).status_code == 403
