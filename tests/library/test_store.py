"""The models folder: whole files or none, records that may be lost, full disks."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgespec.errors import BadInput, ChecksumMismatch, DiskFull
from edgespec.library.card import ModelCard
from edgespec.library.store import Store, default_store, free_bytes, sha256_of
from tests.library.toy_card import toy_card

CONTENT = bytes(range(256)) * 40
BLOCKS = (CONTENT[:5000], CONTENT[5000:])


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "models")


@pytest.fixture
def card() -> ModelCard:
    return toy_card(CONTENT)


def visible(store: Store) -> list[str]:
    return sorted(path.name for path in store.root.rglob("*") if path.is_file())


def test_what_was_installed_is_found(store: Store, card: ModelCard) -> None:
    assert store.find(card) is None
    path = store.install(card, BLOCKS, "a test")
    assert path.read_bytes() == CONTENT
    assert store.find(card) == path
    assert visible(store) == ["model.json", "toy.gguf"]


@pytest.mark.parametrize("blocks", [(CONTENT[:-1],), (CONTENT, b"more"), (b"x" + CONTENT[1:],), ()])
def test_other_content_is_refused_and_removed(store: Store, card: ModelCard, blocks: tuple[bytes, ...]) -> None:
    with pytest.raises(ChecksumMismatch, match=card.sha256):
        store.install(card, blocks, "a test")
    assert visible(store) == []


def test_a_mismatch_shows_what_was_got(store: Store, card: ModelCard) -> None:
    with pytest.raises(ChecksumMismatch, match=r"e3b0c44298fc1c14.*0 bytes instead of 10240"):
        store.install(card, (), "a test")


def test_an_endless_source_is_cut_off(store: Store, card: ModelCard) -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield CONTENT

    with pytest.raises(ChecksumMismatch):
        store.install(card, endless(), "a test")
    assert visible(store) == []


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), OSError(errno.EDQUOT, "Quota")])
def test_a_disk_that_fills_up_in_the_middle(store: Store, card: ModelCard, failure: OSError) -> None:
    with pytest.raises(DiskFull, match="EDGESPEC_HOME"):
        store.install(card, broken_off(failure), "a test")
    assert visible(store) == []


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), RuntimeError("anything")])
def test_an_interruption_leaves_nothing(store: Store, card: ModelCard, failure: BaseException) -> None:
    with pytest.raises(type(failure)):
        store.install(card, broken_off(failure), "a test")
    assert visible(store) == []


def broken_off(failure: BaseException) -> Iterator[bytes]:
    yield CONTENT[:5000]
    raise failure


def test_an_interruption_keeps_the_model_that_was_there(store: Store, card: ModelCard) -> None:
    path = store.install(card, BLOCKS, "a test")
    with pytest.raises(KeyboardInterrupt):
        store.install(card, broken_off(KeyboardInterrupt()), "a test")
    assert path.read_bytes() == CONTENT
    assert visible(store) == ["model.json", "toy.gguf"]


@pytest.mark.parametrize(
    "record", [None, b"", b"[]", b"{", b'{"format": 99}', b'{"format": 1, "path": 3}', b"\xff\xfe", b"[" * 5000]
)
def test_a_lost_or_damaged_record_is_rebuilt(store: Store, card: ModelCard, record: bytes | None) -> None:
    path = store.install(card, BLOCKS, "a test")
    place = path.with_name("model.json")
    whole = place.read_bytes()
    place.unlink()
    if record is not None:
        place.write_bytes(record)
    assert store.find(card) == path
    assert len(place.read_bytes()) > len(whole) // 2


def test_a_truncated_model_is_not_found(store: Store, card: ModelCard) -> None:
    path = store.install(card, BLOCKS, "a test")
    path.write_bytes(CONTENT[:-1])
    assert store.find(card) is None


def test_a_model_without_record_is_checked(store: Store, card: ModelCard) -> None:
    path = store.install(card, BLOCKS, "a test")
    path.with_name("model.json").unlink()
    path.write_bytes(b"x" + CONTENT[1:])
    assert store.find(card) is None


def test_a_newer_card_is_another_model(store: Store, card: ModelCard) -> None:
    store.install(card, BLOCKS, "a test")
    assert store.find(replace(card, sha256="1" * 64)) is None


def test_a_file_elsewhere_is_used_in_place(store: Store, card: ModelCard, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.gguf"
    elsewhere.write_bytes(CONTENT)
    store.adopt(card, elsewhere, "another program")
    assert store.find(card) == elsewhere
    elsewhere.unlink()
    assert store.find(card) is None


def test_too_little_space_is_said_before(store: Store) -> None:
    small = replace(store, free_bytes=lambda _folder: 12_000_000)
    with pytest.raises(DiskFull, match=r"toy needs 284 MB of disk space: only 12 MB are free .* set EDGESPEC_HOME"):
        small.require_space("toy", 284_000_000, small.root)
    small.require_space("toy", 12_000_000, small.root)


def test_free_space_of_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    assert free_bytes(tmp_path / "a" / "b") == pytest.approx(free_bytes(tmp_path), rel=0.5)


def test_a_folder_that_cannot_be_made(card: ModelCard, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(BadInput, match="set EDGESPEC_HOME"):
        Store(tmp_path / "file" / "models").install(card, BLOCKS, "a test")


def test_a_record_that_cannot_be_written_is_no_error(card: ModelCard, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    elsewhere = tmp_path / "elsewhere.gguf"
    elsewhere.write_bytes(CONTENT)
    assert Store(tmp_path / "file" / "models").adopt(card, elsewhere, "another program") == elsewhere


def test_sha256_reports_its_progress(tmp_path: Path, card: ModelCard) -> None:
    path = tmp_path / "m"
    path.write_bytes(CONTENT)
    seen: list[tuple[int, int]] = []
    assert sha256_of(path, lambda done, total: seen.append((done, total))) == card.sha256
    assert seen[-1] == (len(CONTENT), len(CONTENT))


def test_the_default_store_follows_edgespec_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path))
    assert tmp_path in default_store().root.parents
