"""edgespec's own folder of models: what is installed, and how a file gets in so that it is there whole or not at all.

Layout under `root`: <card id>/<file>.gguf and <card id>/model.json beside it; .staging/<card id>/ holds a download in
progress. Knows nothing of where bytes come from.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgespec.config import data_dir
from edgespec.errors import BadInput, ChecksumMismatch, DiskFull, EdgeSpecError
from edgespec.library.card import ModelCard
from edgespec.library.lock import exclusive
from edgespec.library.table import Table
from edgespec.library.units import readable_bytes
from edgespec.records import write_atomically

# Raise when the meaning of a record changes: older ones are then rebuilt from the file they speak of.
_FORMAT = 1
_BLOCK_BYTES = 1 << 20
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True, slots=True)
class Record:
    """What is known of an installed model. `path` may lie outside the store, when it is used in place."""

    path: Path
    size_bytes: int
    sha256: str
    source: str


def free_bytes(folder: Path) -> int:
    """Free space on the disk that `folder` is on, or will be on."""
    existing = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    return shutil.disk_usage(existing).free


@dataclass(frozen=True, slots=True)
class Store:
    root: Path
    free_bytes: Callable[[Path], int] = free_bytes

    def folder(self, card: ModelCard) -> Path:
        return self.root / card.id

    def staging(self, card: ModelCard) -> Path:
        return self.root / ".staging" / card.id

    def find(self, card: ModelCard) -> Path | None:
        """The card's model, if it is installed whole. A lost or damaged record is rebuilt from the file itself."""
        record = self._read_record(card)
        if record is not None and record.sha256 == card.sha256 and _size(record.path) == card.size_bytes:
            return record.path
        own = self.folder(card) / card.file
        if _size(own) != card.size_bytes or sha256_of(own) != card.sha256:
            return None
        return self.adopt(card, own, "found in the models folder")

    def install(self, card: ModelCard, blocks: Iterable[bytes], source: str) -> Path:
        """Write a model and publish it when size and sha256 are the card's.

        Raises ChecksumMismatch, DiskFull, BadInput (the folder cannot be written) and what `blocks` raises; whatever it
        raises, nothing is left behind.
        """
        final = self.folder(card) / card.file
        temporary = final.with_name(f".{card.file}.part")
        with self.disk_errors(card.size_bytes):
            final.parent.mkdir(parents=True, exist_ok=True)
            try:
                _require_same(card, *_write(temporary, blocks, card.size_bytes))
                os.replace(temporary, final)
            finally:
                temporary.unlink(missing_ok=True)
        return self.adopt(card, final, source)

    def adopt(self, card: ModelCard, path: Path, source: str) -> Path:
        """Record a file that is known to be the card's model. Without a record it is checked again each time, so a
        folder that cannot be written is no error.
        """
        folder = self.folder(card)
        place = path.name if path.parent == folder else str(path.absolute())
        record = {"format": _FORMAT, "path": place, "size_bytes": card.size_bytes, "sha256": card.sha256}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / "model.json", json.dumps({**record, "source": source}, indent=1))
        except OSError:
            return path
        return path

    def require_space(self, what: str, n_bytes: int, folder: Path, variable: str = "EDGESPEC_HOME") -> None:
        """Raises DiskFull when `folder`'s disk has less than `n_bytes` free. `variable` is what moves the folder."""
        free = self.free_bytes(folder)
        if free < n_bytes:
            raise DiskFull(
                f"{what} needs {readable_bytes(n_bytes)} of disk space",
                f"only {readable_bytes(free)} are free for {folder}",
                f"make room, or set {variable} to a folder on a larger disk",
            )

    @contextmanager
    def disk_errors(self, n_bytes: int) -> Iterator[None]:
        """Turns what the system says about writing `n_bytes` here into DiskFull or BadInput."""
        try:
            yield
        except OSError as error:
            if error.errno in _DISK_FULL:
                raise DiskFull(
                    f"{readable_bytes(n_bytes)} did not fit into {self.root}",
                    f"{readable_bytes(self.free_bytes(self.root))} are free",
                    "make room, or set EDGESPEC_HOME to a folder on a larger disk",
                ) from None
            why = error.strerror or str(error)
            raise BadInput(f"models folder {self.root}", why, "set EDGESPEC_HOME to a folder you may write") from None

    @contextmanager
    def downloading(self, card: ModelCard, on_wait: Callable[[], None]) -> Iterator[Path]:
        """The card's staging folder, for one process at a time. What is in it stays for the next try."""
        staging = self.staging(card)
        with self.disk_errors(0):
            staging.mkdir(parents=True, exist_ok=True)
        with exclusive(staging.with_name(f"{card.id}.lock"), on_wait):
            yield staging

    def _read_record(self, card: ModelCard) -> Record | None:
        path = self.folder(card) / "model.json"
        try:
            return _parse_record(path)
        except (OSError, ValueError, RecursionError, EdgeSpecError):
            return None


def default_store() -> Store:
    return Store(data_dir() / "models")


def sha256_of(path: Path, progress: Callable[[int, int], None] | None = None) -> str:
    """Hexadecimal digest of a file. Raises OSError."""
    digest, n_done, n_bytes = hashlib.sha256(), 0, path.stat().st_size
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
            n_done += len(block)
            if progress:
                progress(n_done, n_bytes)
    return digest.hexdigest()


def _write(path: Path, blocks: Iterable[bytes], limit: int) -> tuple[int, str]:
    """(bytes, sha256) written. Stops soon after `limit`: a source that sends more is wrong already."""
    digest, n_bytes = hashlib.sha256(), 0
    with path.open("wb") as file:
        for block in blocks:
            file.write(block)
            digest.update(block)
            n_bytes += len(block)
            if n_bytes > limit:
                break
        file.flush()
        os.fsync(file.fileno())
    return n_bytes, digest.hexdigest()


def _require_same(card: ModelCard, n_bytes: int, sha256: str) -> None:
    if n_bytes == card.size_bytes and sha256 == card.sha256:
        return
    sizes = "" if n_bytes == card.size_bytes else f" ({n_bytes} bytes instead of {card.size_bytes})"
    raise ChecksumMismatch(
        f"{card.file} for {card.id}",
        f"its sha256 is {sha256} and must be {card.sha256}{sizes}",
        f"the bad file was removed, try 'edgespec pull {card.id}' again; if it stays, the source has changed",
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _parse_record(path: Path) -> Record:
    entries = json.loads(path.read_text("utf-8"))
    if not isinstance(entries, dict):
        raise ValueError
    table = Table(str(path), entries, "")
    if table.count("format") != _FORMAT:
        raise ValueError
    model = path.parent / table.text("path")
    return Record(model, table.count("size_bytes"), table.text("sha256"), table.text("source"))
