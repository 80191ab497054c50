"""From what the user types as MODEL to a GGUF on this machine. Downloads nothing itself: it calls what it is given."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgespec.errors import ModelNotFound, UnsupportedModel
from edgespec.library.card import ModelCard, default_card, load_cards
from edgespec.library.foreign import foreign_models, hub_files
from edgespec.library.header import read_header
from edgespec.library.places import Places, usual_places
from edgespec.library.repository import PREFIX, RepositoryModel, choose_file, parse_repository_model
from edgespec.library.store import Store, default_store, sha256_of

# Architectures of GGUF files that belong to a model and speak no language.
_SILENT = ("", "clip")


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """`path` is the first part of a split model. `card` is None for a file edgespec has no card of."""

    path: Path
    card: ModelCard | None
    name: str


@dataclass(frozen=True, slots=True)
class Library:
    """Everything MODEL may mean on this machine."""

    cards: tuple[ModelCard, ...]
    store: Store
    places: Places


@dataclass(frozen=True, slots=True)
class Fetchers:
    """How a model gets here that is not here yet. Each returns its path or raises an EdgeSpecError."""

    card: Callable[[ModelCard], Path]
    repository: Callable[[RepositoryModel], Path]


def open_library() -> Library:
    """Raises BadInput for a card of the user's that cannot be read."""
    return Library(load_cards(), default_store(), usual_places())


def resolve(argument: str | None, library: Library, fetchers: Fetchers) -> ResolvedModel:
    """The model that `argument` names: None the default card; a card's id; a path; hf:user/repo[:quant]; or a name that
    `edgespec models` lists, such as ollama:llama3.2:1b. What is on disk is preferred to a download.

    Raises ModelNotFound with near names, CorruptModel and UnsupportedModel for files, and what the fetchers raise.
    """
    card = find_card(argument, library)
    if argument is None or card is not None:
        card = card or require_default(library)
        return ResolvedModel(installed_path(card, library) or fetchers.card(card), card, card.id)
    return resolve_other(argument, library, fetchers.repository)


def resolve_other(
    argument: str, library: Library, fetch_repository: Callable[[RepositoryModel], Path]
) -> ResolvedModel:
    """A model that has no card. Raises as `resolve` does."""
    if argument.startswith(PREFIX):
        return _resolve_repository(parse_repository_model(argument), library, fetch_repository)
    if _is_path(argument):
        return _checked(Path(os.path.expanduser(argument)), Path(argument).stem)
    for model in foreign_models(library.places):
        if model.name == argument:
            return _checked(model.path, model.name)
    raise _unknown(argument, library)


def find_card(argument: str | None, library: Library) -> ModelCard | None:
    """The card with this id, whatever its case, or None."""
    return next((card for card in library.cards if argument is not None and card.id == argument.lower()), None)


def require_default(library: Library) -> ModelCard:
    card = default_card(library.cards)
    if card is None:
        raise ModelNotFound("no model was named", "no card calls itself the default", "name a model")
    return card


def installed_path(card: ModelCard, library: Library) -> Path | None:
    """Where the card's model is: in the store, or the very same file in another program's folder."""
    found = library.store.find(card)
    if found is not None:
        return found
    for model in foreign_models(library.places):
        if model.size_bytes == card.size_bytes and _sha256_or_none(model.path) == card.sha256:
            return library.store.adopt(card, model.path, model.source)
    return None


def _resolve_repository(
    model: RepositoryModel, library: Library, fetch_repository: Callable[[RepositoryModel], Path]
) -> ResolvedModel:
    cached = hub_files(library.places, model.repo)
    try:
        path = cached[choose_file(cached, model)]
    except ModelNotFound:
        path = fetch_repository(model)
    return _checked(path, str(model))


def _checked(path: Path, name: str) -> ResolvedModel:
    """Raises what `read_header` does, and UnsupportedModel for a GGUF that is no language model."""
    header = read_header(path)
    if header.kind != "model" or header.architecture in _SILENT or not header.tensors:
        kind = header.kind if header.kind != "model" else "part of a model, or a vocabulary"
        raise UnsupportedModel(str(path), f"it is no language model but: {kind}", "give the model's own GGUF file")
    return ResolvedModel(header.path, None, name)


def _is_path(argument: str) -> bool:
    separators = {"/", os.sep, os.altsep or os.sep}
    is_foreign = argument.partition(":")[0] in ("ollama", "lmstudio", "llama.cpp")
    looks_like_one = argument.lower().endswith(".gguf") or any(separator in argument for separator in separators)
    return not is_foreign and (looks_like_one or os.path.isfile(argument))


def _unknown(argument: str, library: Library) -> ModelNotFound:
    names = [*(card.id for card in library.cards), *(model.name for model in foreign_models(library.places))]
    close = difflib.get_close_matches(argument, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    return ModelNotFound(
        f"model '{argument}'",
        "no file, card or model of another program has that name",
        f"{hint}'edgespec models' lists what there is, and hf:user/repo fetches from Hugging Face",
    )


def _sha256_or_none(path: Path) -> str | None:
    try:
        return sha256_of(path)
    except OSError:
        return None
