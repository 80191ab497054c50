"""Cards: the shipped ones, the user's own, and every way a card can be wrong."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edgespec.errors import BadInput
from edgespec.library.card import (
    HubSource,
    ModelKind,
    PackageFile,
    PackageSource,
    default_card,
    draft_cards,
    load_cards,
    parse_card,
)
from tests.library.toy_card import CARD_TEXT

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path))
    return tmp_path


def test_shipped_cards() -> None:
    cards = {card.id: card for card in load_cards()}
    smollm2, gemma = cards["smollm2-135m"], cards["gemma-3-270m"]
    assert default_card(cards.values()) == smollm2
    assert (smollm2.kind, smollm2.licence.name, smollm2.licence.must_accept) == (ModelKind.CHAT, "Apache-2.0", False)
    assert (gemma.kind, gemma.licence.must_accept, gemma.chat_template) == (ModelKind.BASE, True, None)
    assert gemma.licence.full_text is not None
    source = gemma.sources[0]
    assert isinstance(source, PackageSource)
    assert [part.package[-1] for part in source.parts] == ["1", "2", "3", "4"]
    assert source.download_bytes == 56634990 + 60953371 + 59882045 + 60704618


def test_a_whole_card() -> None:
    card = parse_card(CARD_TEXT, "toy.toml")
    assert card.sources == (
        PackageSource((PackageFile("toy-model", "1.0", "toy_model/toy.gguf", 10),)),
        HubSource("user/toy-GGUF", "toy.gguf"),
    )
    assert (card.n_parameters, card.is_default, card.end_tokens, card.stop_strings) == (704, False, (), ())
    assert card.drafts == ()


def test_a_user_card_is_found_and_wins_over_a_shipped_one(home: Path) -> None:
    folder = home / "config" / "models"
    folder.mkdir(parents=True)
    (folder / "a.toml").write_text(CARD_TEXT, "utf-8")
    (folder / "b.toml").write_text(CARD_TEXT.replace('id = "toy"', 'id = "gemma-3-270m"'), "utf-8")
    cards = {card.id: card for card in load_cards()}
    assert sorted(cards) == ["gemma-3-270m", "smollm2-135m", "toy"]
    assert cards["gemma-3-270m"].name == "Toy"


def test_a_bad_user_card_is_named_with_its_file(home: Path) -> None:
    folder = home / "config" / "models"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_bytes(b"id = '\xff'")
    with pytest.raises(BadInput, match=r"mine\.toml"):
        load_cards()


def test_known_drafts_come_in_the_order_of_the_card(home: Path) -> None:
    folder = home / "config" / "models"
    folder.mkdir(parents=True)
    big = CARD_TEXT.replace('id = "toy"', 'id = "big"\ndrafts = ["toy", "smollm2-135m"]')
    big = big.replace("parameters = 704", "parameters = 1000000000")
    for name, text in (("a", CARD_TEXT), ("b", big)):
        (folder / f"{name}.toml").write_text(text, "utf-8")
    cards = {card.id: card for card in load_cards()}
    assert [card.id for card in draft_cards(cards["big"], cards.values())] == ["toy", "smollm2-135m"]
    assert all(draft_cards(cards[key], cards.values()) == () for key in ("toy", "smollm2-135m", "gemma-3-270m"))


@pytest.mark.parametrize(
    ("name", "why"),
    [("toi", "no card has the id 'toi'"), ("gemma-3-270m", "'gemma-3-270m' is no smaller than the model itself")],
)
def test_a_draft_that_cannot_be_one_is_named_with_its_file(name: str, why: str, home: Path) -> None:
    folder = home / "config" / "models"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text(CARD_TEXT.replace('id = "toy"', f'id = "toy"\ndrafts = ["{name}"]'), "utf-8")
    with pytest.raises(BadInput) as raised:
        load_cards()
    assert raised.value.what == f"{folder / 'mine.toml'}, key 'drafts'"
    assert raised.value.why == why


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('id = "toy"', 'id = "To y"', "'id'"),
        ('id = "toy"', 'id = "../toy"', "'id'"),
        ('id = "toy"', "", "'id'"),
        ('kind = "chat"', 'kind = "talk"', "'kind': it is 'talk' and must be one of chat, base"),
        ('file = "toy.gguf"\nsize', 'file = "a/toy.gguf"\nsize', "'file'"),
        ('file = "toy.gguf"\nsize', 'file = "a\\\\toy.gguf"\nsize', "'file'"),
        ('file = "toy.gguf"\nsize', 'file = "toy.bin"\nsize', "'file'"),
        ("size_bytes = 1000", 'size_bytes = "1000"', "'size_bytes'"),
        ('sha256 = "00', 'sha256 = "0', "'sha256'"),
        ('sha256 = "00', 'sha256 = "ZZ', "'sha256'"),
        ('licence = "Apache-2.0"', "licence = 2", "'licence'"),
        ('licence = "Apache-2.0"', 'licence = "X"\nlicence_must_accept = true', "'licence_notice'"),
        ('package = "toy-model"', 'package = "--index-url"', "sources 1, parts 1, key 'package'"),
        ('version = "1.0"', 'version = ">=1"', "'version'"),
        ('repo = "user/toy-GGUF"', 'repo = "toy"', "sources 2, key 'repo'"),
        ('kind = "hub"', 'kind = "ftp"', "sources 2, key 'kind'"),
        ("parts = [{", "pieces = [{", "'parts'"),
        ('name = "Toy"', 'name = "Toy"\ncolour = "red"', "'colour': no such key"),
        ('name = "Toy"', 'name = "Toy"\ndrafts = "small"', "'drafts': a list of texts is needed"),
        ('name = "Toy"', 'name = "Toy"\ndrafts = ["A b"]', "'drafts': ids of cards are needed, each once, not 'A b'"),
        ('name = "Toy"', 'name = "Toy"\ndrafts = ["a", "a"]', "'drafts': ids of cards are needed, each once, not 'a'"),
        ('name = "Toy"', 'name = "Toy"\ndrafts = ["toy"]', "'drafts': a model is no draft for itself"),
        ('name = "Toy"', "name = ", "no TOML"),
    ],
)
def test_a_bad_card_is_refused(old: str, new: str, named: str) -> None:
    assert old in CARD_TEXT
    with pytest.raises(BadInput, match=r"mine\.toml") as raised:
        parse_card(CARD_TEXT.replace(old, new, 1), "mine.toml")
    assert named in str(raised.value)


def test_an_installed_package_brings_its_cards(tmp_path: Path) -> None:
    """As the wheel lays them out: edgespec/models/*.toml, far from any source tree."""
    package = tmp_path / "site" / "edgespec"
    shutil.copytree(REPOSITORY / "edgespec", package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "__init__.py").write_text("")
    (package / "models").mkdir()
    (package / "models" / "toy.toml").write_text(CARD_TEXT, "utf-8")
    script = "from edgespec.library.card import load_cards; print([card.id for card in load_cards()])"
    found = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path / "site", capture_output=True, text=True, check=False
    )
    assert found.stdout.strip() == "['toy']", found.stderr
