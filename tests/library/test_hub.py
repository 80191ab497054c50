"""The adapter over huggingface_hub, against a module of the same shape."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from edgespec.errors import DiskFull, MissingExtra, ModelNotFound, NetworkUnavailable
from edgespec.library.hub import HubFile, cache_folder, download, repository_files
from tests.library.toy_hub import (
    ConnectError,
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    install_hub,
    put,
    remove_hub,
)


def ignore(_done: int, _total: int) -> None:
    return


def test_files_and_their_sizes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install_hub(monkeypatch, tmp_path)
    put(tmp_path, "user/repo", "a/b.gguf", b"1234")
    put(tmp_path, "user/repo", "README.md", b"1")
    assert repository_files("user/repo") == (HubFile("README.md", 1), HubFile("a/b.gguf", 4))


def test_download_into_the_shared_cache_with_progress(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cache = install_hub(monkeypatch, tmp_path)
    put(tmp_path, "user/repo", "b.gguf", b"1234")
    seen: list[tuple[int, int]] = []
    path = download("user/repo", "b.gguf", lambda done, total: seen.append((done, total)))
    assert path.read_bytes() == b"1234"
    assert cache_folder() == cache
    assert cache in path.parents
    assert seen == [(2, 4), (4, 4)]


def test_a_file_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install_hub(monkeypatch, tmp_path)
    put(tmp_path, "user/repo", "b.gguf", b"1234")
    with pytest.raises(ModelNotFound, match=r"user/repo, file c\.gguf.*no such file"):
        download("user/repo", "c.gguf", ignore)


@pytest.mark.parametrize(
    ("failure", "error", "why"),
    [
        (ConnectError("name resolution failed"), NetworkUnavailable, "name resolution failed"),
        (ConnectionError("offline mode is enabled"), NetworkUnavailable, "offline mode is enabled"),
        (HfHubHTTPError("503 Server Error\nmore"), NetworkUnavailable, "503 Server Error; "),
        (TimeoutError(), NetworkUnavailable, "TimeoutError"),
        (EntryNotFoundError("not cached"), NetworkUnavailable, "not cached"),
        (GatedRepoError("403"), ModelNotFound, "ask for access"),
        (OSError(errno.ENOSPC, "No space left on device"), DiskFull, "No space left"),
    ],
)
def test_failures_become_sentences(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failure: Exception, error: type[Exception], why: str
) -> None:
    install_hub(monkeypatch, tmp_path, failure)
    with pytest.raises(error, match=why):
        repository_files("user/repo")
    with pytest.raises(error, match=why):
        download("user/repo", "b.gguf", ignore)


def test_an_unknown_repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install_hub(monkeypatch, tmp_path)
    with pytest.raises(ModelNotFound, match="does not exist, or is private"):
        repository_files("user/none")


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    remove_hub(monkeypatch)
    with pytest.raises(MissingExtra, match="pip install huggingface-hub"):
        repository_files("user/repo")
