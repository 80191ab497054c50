"""A thin adapter over huggingface_hub: which files a repository has, and one of them in the shared cache.

huggingface_hub brings the cache that other programs share, the retries and the login; it is an extra and imported when
first used. Knows nothing of cards.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TypeAlias

from edgespec.errors import DiskFull, EdgeSpecError, MissingExtra, ModelNotFound, NetworkUnavailable

Progress: TypeAlias = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class HubFile:
    """`size_bytes` is 0 when the hub does not say."""

    name: str
    size_bytes: int


def repository_files(repo: str) -> tuple[HubFile, ...]:
    """Raises MissingExtra, NetworkUnavailable, ModelNotFound (no such repository, or a closed one)."""
    hub = _hub()
    try:
        found = hub.HfApi().model_info(repo, files_metadata=True)
    except _failures(hub) as error:
        raise _explain(hub, repo, error) from None
    return tuple(HubFile(str(entry.rfilename), int(entry.size or 0)) for entry in found.siblings or ())


def cache_folder() -> Path:
    """The shared cache. Raises MissingExtra."""
    return Path(_hub().constants.HF_HUB_CACHE)


def download(repo: str, file: str, progress: Progress) -> Path:
    """Path of the file in the shared cache. `progress` gets (bytes done, bytes in all).

    Raises MissingExtra, NetworkUnavailable, ModelNotFound, DiskFull.
    """
    hub = _hub()
    try:
        return Path(hub.hf_hub_download(repo, file, tqdm_class=_bar(progress)))
    except _failures(hub) as error:
        raise _explain(hub, f"{repo}, file {file}", error) from None


def _hub() -> ModuleType:
    # Without this the package reports to the hub which programs use it; edgespec sends nothing but the request itself.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        return import_module("huggingface_hub")
    except ImportError:
        raise MissingExtra(
            "the Hugging Face hub",
            "the package huggingface_hub is not installed",
            "run: pip install huggingface-hub; or give the path of a GGUF file",
        ) from None


def _failures(hub: ModuleType) -> tuple[type[Exception], ...]:
    """What huggingface_hub raises. Its HTTP library changed with its versions; that library's own base error is the
    first base of HfHubHTTPError in all of them.
    """
    http_error: type[Exception] = hub.errors.HfHubHTTPError
    not_found: type[Exception] = hub.errors.EntryNotFoundError
    return (OSError, http_error, http_error.__bases__[0], not_found)


def _explain(hub: ModuleType, what: str, error: Exception) -> EdgeSpecError:
    subject = f"Hugging Face repository {what}"
    first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(subject, first_line, "make room, or set HF_HOME to a folder on a larger disk")
    if isinstance(error, hub.errors.GatedRepoError):
        return ModelNotFound(subject, "its owner wants you to ask for access", "ask on its page, then 'hf auth login'")
    if isinstance(error, hub.errors.RepositoryNotFoundError):
        return ModelNotFound(subject, "it does not exist, or is private", "check the name, or 'hf auth login'")
    if isinstance(error, hub.errors.RemoteEntryNotFoundError):
        return ModelNotFound(subject, "the repository has no such file", "look at the repository's list of files")
    return NetworkUnavailable(subject, first_line, "check the network, or give the path of a GGUF file")


def _bar(progress: Progress) -> type:
    """A class of the shape of a progress bar, which is how huggingface_hub reports bytes."""

    class Bar:
        def __init__(  # the names are tqdm's own
            self,
            unit: str = "",
            unit_scale: bool = False,
            total: float | None = None,
            initial: float = 0,
            desc: str = "",
            disable: bool | None = None,
            name: str | None = None,
        ) -> None:
            del unit, unit_scale, desc, disable, name
            self.total = total
            self.n = initial

        def __enter__(self) -> Bar:
            return self

        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
        ) -> None:
            del kind, error, trace

        def update(self, n: float | None = 1) -> None:
            self.n += n or 0
            progress(int(self.n), int(self.total or self.n))

        def close(self) -> None:
            return

        def refresh(self) -> None:
            return

    return Bar
