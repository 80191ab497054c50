"""A module of the shape of huggingface_hub, serving files from a folder into a cache folder.

huggingface_hub is an extra; these are the names and behaviours of it that the adapter relies on.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Protocol

import pytest


class HTTPError(Exception):
    """The HTTP library's own base."""


class ConnectError(HTTPError):
    pass


class HfHubHTTPError(HTTPError, OSError):
    pass


class RepositoryNotFoundError(HfHubHTTPError):
    pass


class GatedRepoError(RepositoryNotFoundError):
    pass


class EntryNotFoundError(Exception):
    pass


class RemoteEntryNotFoundError(HfHubHTTPError, EntryNotFoundError):
    pass


ERRORS = (HfHubHTTPError, RepositoryNotFoundError, GatedRepoError, EntryNotFoundError, RemoteEntryNotFoundError)


class _Bar(Protocol):
    def __enter__(self) -> _Bar: ...

    def __exit__(self, kind: None, error: None, trace: None) -> None: ...

    def update(self, n: float) -> None: ...


class _BarClass(Protocol):
    def __call__(self, *, unit: str, unit_scale: bool, total: int, initial: int, desc: str) -> _Bar: ...


def install_hub(monkeypatch: pytest.MonkeyPatch, root: Path, failure: Exception | None = None) -> Path:
    """Repositories are root/repositories/<user>/<repo>; returns the cache. `failure` is raised by every call."""
    cache = root / "cache"
    repositories = root / "repositories"
    module = ModuleType("huggingface_hub")

    def model_info(repo: str, *, files_metadata: bool) -> SimpleNamespace:
        assert files_metadata
        folder = _folder(repo)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        siblings = [
            SimpleNamespace(rfilename=path.relative_to(folder).as_posix(), size=path.stat().st_size) for path in files
        ]
        return SimpleNamespace(siblings=siblings)

    def hf_hub_download(repo: str, file: str, *, tqdm_class: _BarClass) -> str:
        source = _folder(repo) / file
        if not source.is_file():
            raise RemoteEntryNotFoundError("404")
        goal = cache / f"models--{repo.replace('/', '--')}" / "snapshots" / "0" / file
        goal.parent.mkdir(parents=True, exist_ok=True)
        n_bytes = source.stat().st_size
        with tqdm_class(unit="B", unit_scale=True, total=n_bytes, initial=0, desc=file) as bar:
            shutil.copy(source, goal)
            bar.update(n_bytes // 2)
            bar.update(n_bytes - n_bytes // 2)
        return str(goal)

    def _folder(repo: str) -> Path:
        if failure is not None:
            raise failure
        if not (repositories / repo).is_dir():
            raise RepositoryNotFoundError("404 Client Error")
        return repositories / repo

    vars(module).update(
        HfApi=lambda: SimpleNamespace(model_info=model_info),
        hf_hub_download=hf_hub_download,
        errors=SimpleNamespace(**{error.__name__: error for error in ERRORS}),
        constants=SimpleNamespace(HF_HUB_CACHE=str(cache)),
    )
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return cache


def put(root: Path, repo: str, file: str, content: bytes) -> None:
    path = root / "repositories" / repo / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def remove_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without the extra."""
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
