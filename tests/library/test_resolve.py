"""What MODEL means: cards, paths, repositories and names of other programs' models."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgespec.errors import BadInput, CorruptModel, ModelNotFound, UnsupportedModel
from edgespec.library.card import ModelCard, load_cards, parse_card
from edgespec.library.repository import RepositoryModel
from edgespec.library.resolve import Fetchers, Library, ResolvedModel, installed_path, open_library, resolve
from edgespec.library.store import Store
from tests.library.toy_card import CARD_TEXT, toy_card
from tests.library.toy_gguf import raw_header, write_model, write_part
from tests.library.toy_places import places_in, put_hub, put_ollama


class Fetched:
    """Fetchers that record what they were asked for and answer with one path."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.asked: list[str] = []

    def card(self, card: ModelCard) -> Path:
        self.asked.append(card.id)
        return self.path

    def repository(self, model: RepositoryModel) -> Path:
        self.asked.append(str(model))
        return self.path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "elsewhere.gguf")


@pytest.fixture
def library(tmp_path: Path) -> Library:
    default = parse_card(CARD_TEXT.replace('id = "toy"', 'id = "star-ter"\ndefault = true'), "default")
    return Library((default, toy_card(b"GGUF")), Store(tmp_path / "models"), places_in(tmp_path))


@pytest.fixture
def fetched(model: Path) -> Fetched:
    return Fetched(model)


def resolved(argument: str | None, library: Library, fetched: Fetched) -> ResolvedModel:
    return resolve(argument, library, Fetchers(fetched.card, fetched.repository))


def test_nothing_named_is_the_default_card(library: Library, fetched: Fetched) -> None:
    assert resolved(None, library, fetched) == ResolvedModel(fetched.path, library.cards[0], "star-ter")
    assert fetched.asked == ["star-ter"]


def test_a_card_is_named_in_any_case(library: Library, fetched: Fetched) -> None:
    assert resolved("TOY", library, fetched).card == library.cards[1]
    assert fetched.asked == ["toy"]


def test_an_installed_card_is_not_fetched(library: Library, fetched: Fetched) -> None:
    path = library.store.install(library.cards[1], [b"GGUF"], "a test")
    assert resolved("toy", library, fetched).path == path
    assert fetched.asked == []


def test_the_same_file_of_another_program_is_used(library: Library, fetched: Fetched, tmp_path: Path) -> None:
    put_ollama(tmp_path, "registry.example.org/library/other/latest", b"GGUX")
    blob = put_ollama(tmp_path, "registry.example.org/library/toy/latest", b"GGUF")
    assert resolved("toy", library, fetched).path == blob
    assert fetched.asked == []
    assert library.store.find(library.cards[1]) == blob
    blob.unlink()
    assert installed_path(library.cards[1], library) is None


def test_a_path(library: Library, fetched: Fetched, model: Path) -> None:
    assert resolved(str(model), library, fetched) == ResolvedModel(model, None, "elsewhere")


def test_a_path_without_a_folder(
    monkeypatch: pytest.MonkeyPatch, library: Library, fetched: Fetched, model: Path
) -> None:
    monkeypatch.chdir(model.parent)
    assert resolved("elsewhere.gguf", library, fetched).path == Path("elsewhere.gguf")
    model.rename(model.with_suffix(""))
    assert resolved("elsewhere", library, fetched).path == Path("elsewhere")


def test_a_path_in_the_home(monkeypatch: pytest.MonkeyPatch, library: Library, fetched: Fetched, model: Path) -> None:
    monkeypatch.setenv("HOME", str(model.parent))
    monkeypatch.setenv("USERPROFILE", str(model.parent))
    assert resolved("~/elsewhere.gguf", library, fetched).path == model


def test_any_part_of_a_split_model(library: Library, fetched: Fetched, tmp_path: Path) -> None:
    first = write_part(tmp_path / "m-00001-of-00002.gguf", 0, 2)
    second = write_part(tmp_path / "m-00002-of-00002.gguf", 1, 2)
    assert resolved(str(second), library, fetched).path == first


def test_a_vocabulary_alone(library: Library, fetched: Fetched, tmp_path: Path) -> None:
    (tmp_path / "vocabulary.gguf").write_bytes(raw_header(0, 0))
    with pytest.raises(UnsupportedModel, match="a vocabulary"):
        resolved(str(tmp_path / "vocabulary.gguf"), library, fetched)


@pytest.mark.parametrize(("kind", "arch"), [("adapter", "llama"), ("mmproj", "clip"), ("model", "clip")])
def test_a_gguf_that_is_no_language_model(
    library: Library, fetched: Fetched, tmp_path: Path, kind: str, arch: str
) -> None:
    path = write_model(tmp_path / "part.gguf", kind=kind, arch=arch)
    with pytest.raises(UnsupportedModel, match="no language model"):
        resolved(str(path), library, fetched)


def test_a_repository_that_is_not_cached_is_fetched(library: Library, fetched: Fetched) -> None:
    assert resolved("hf:user/toy:Q8_0", library, fetched) == ResolvedModel(fetched.path, None, "hf:user/toy:Q8_0")
    assert fetched.asked == ["hf:user/toy:Q8_0"]


@pytest.mark.parametrize("argument", ["hf:user/toy", "hf:user/toy:q8_0", "hf:user/toy:toy-Q8_0.gguf"])
def test_a_cached_repository_is_used(
    library: Library, fetched: Fetched, model: Path, tmp_path: Path, argument: str
) -> None:
    link = put_hub(tmp_path, "user/toy", "toy-Q8_0.gguf", model.read_bytes())
    assert resolved(argument, library, fetched).path == link
    assert fetched.asked == []


def test_another_quantisation_than_the_cached_one_is_fetched(
    library: Library, fetched: Fetched, model: Path, tmp_path: Path
) -> None:
    put_hub(tmp_path, "user/toy", "toy-Q8_0.gguf", model.read_bytes())
    assert resolved("hf:user/toy:Q4_0", library, fetched).path == fetched.path
    assert fetched.asked == ["hf:user/toy:Q4_0"]


def test_a_repository_name_that_is_none(library: Library, fetched: Fetched) -> None:
    with pytest.raises(BadInput):
        resolved("hf:toy", library, fetched)


@pytest.mark.parametrize("name", ["ollama:toy:latest", "lmstudio:pub/toy/toy-Q8_0"])
def test_a_name_of_another_program(library: Library, fetched: Fetched, model: Path, tmp_path: Path, name: str) -> None:
    put_ollama(tmp_path, "registry.example.org/library/toy/latest", model.read_bytes())
    studio = tmp_path / "lmstudio" / "pub" / "toy"
    studio.mkdir(parents=True)
    (studio / "toy-Q8_0.gguf").write_bytes(model.read_bytes())
    found = resolved(name, library, fetched)
    assert (found.name, found.card) == (name, None)
    assert found.path.read_bytes() == model.read_bytes()


@pytest.mark.parametrize(
    ("argument", "hint"),
    [
        ("star-tre", "did you mean star-ter"),
        ("ollama:toi:latest", "did you mean ollama:toy:latest"),
        ("zzzzzzzzz", "'edgespec models' lists"),
        ("", "'edgespec models' lists"),
        ("~nobody", "'edgespec models' lists"),
        ("nul\0byte", "'edgespec models' lists"),
        ("x" * 5000, "'edgespec models' lists"),
    ],
)
def test_an_unknown_name(
    library: Library, fetched: Fetched, model: Path, tmp_path: Path, argument: str, hint: str
) -> None:
    put_ollama(tmp_path, "registry.example.org/library/toy/latest", model.read_bytes())
    with pytest.raises(ModelNotFound, match=hint):
        resolved(argument, library, fetched)


def test_a_path_that_does_not_exist(library: Library, fetched: Fetched, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"did you mean .*elsewhere\.gguf"):
        resolved(str(tmp_path / "elsewher.gguf"), library, fetched)


def test_a_folder(library: Library, fetched: Fetched, tmp_path: Path) -> None:
    with pytest.raises(CorruptModel, match="it is a folder"):
        resolved(str(tmp_path), library, fetched)


def test_no_default_card(library: Library, fetched: Fetched) -> None:
    with pytest.raises(ModelNotFound, match="no card calls itself the default"):
        resolved(None, Library(library.cards[1:], library.store, library.places), fetched)


def test_the_library_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path))
    library = open_library()
    assert library.cards == load_cards()
    assert tmp_path in library.store.root.parents
