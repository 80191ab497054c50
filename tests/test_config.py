from __future__ import annotations

from pathlib import Path

import pytest

from edgespec.config import cache_dir, config_dir, data_dir, load_config
from edgespec.errors import BadInput


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path))
    return tmp_path


def write(home: Path, content: bytes) -> Path:
    path = home / "config" / "config.toml"
    path.parent.mkdir()
    path.write_bytes(content)
    return path


def test_one_folder_holds_everything(home: Path) -> None:
    assert (data_dir(), cache_dir(), config_dir()) == (home / "data", home / "cache", home / "config")


@pytest.mark.parametrize("value", [None, ""])
def test_otherwise_the_systems_own_folders(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    monkeypatch.delenv("EDGESPEC_HOME", raising=False)
    if value is not None:
        monkeypatch.setenv("EDGESPEC_HOME", value)
    for folder in (data_dir(), cache_dir(), config_dir()):
        assert folder.is_absolute()
        assert "edgespec" in folder.parts
    assert data_dir() != cache_dir()


def test_no_file_is_no_configuration(home: Path) -> None:
    assert load_config() == {}
    write(home, b"")
    assert load_config() == {}


def test_tables_of_plain_values(home: Path) -> None:
    write(home, '[chat]\ntemperature = 0.8\nexact = true\n[run]\nmax_tokens = 5\nsystem = "é"\n'.encode())
    assert load_config() == {"chat": {"temperature": 0.8, "exact": True}, "run": {"max_tokens": 5, "system": "é"}}


def test_a_byte_order_mark_is_no_fault(home: Path) -> None:
    write(home, b"\xef\xbb\xbf[chat]\nseed = 1\n")
    assert load_config() == {"chat": {"seed": 1}}


@pytest.mark.parametrize("content", [b"[chat", b"\xff", b"chat = ", b"x = " + b"[" * 100_000])
def test_a_file_that_cannot_be_read_is_named(home: Path, content: bytes) -> None:
    path = write(home, content)
    with pytest.raises(BadInput) as caught:
        load_config()
    assert str(path) in caught.value.what


@pytest.mark.parametrize(
    "content", [b"chat = 1", b"[chat]\nstop = ['a']", b"[chat.more]\na = 1", b"[chat]\nd = 2020-01-01"]
)
def test_values_that_are_not_plain_are_named(home: Path, content: bytes) -> None:
    path = write(home, content)
    with pytest.raises(BadInput) as caught:
        load_config()
    assert caught.value.what == f"[chat] in {path}"


def test_a_folder_in_its_place_is_an_error(home: Path) -> None:
    (home / "config" / "config.toml").mkdir(parents=True)
    with pytest.raises(BadInput):
        load_config()
