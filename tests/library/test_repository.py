"""Which file of a Hugging Face repository a name means, and how it gets here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgespec.errors import BadInput, DiskFull, ModelNotFound, NetworkUnavailable
from edgespec.library.repository import (
    RepositoryModel,
    choose_file,
    fetch_repository_model,
    parse_repository_model,
)
from edgespec.library.store import Store
from tests.library.listening import Listener
from tests.library.toy_hub import install_hub, put

FILES = (
    "README.md",
    "mmproj-toy-F16.gguf",
    "toy-BF16.gguf",
    "toy-Q4_K_M.gguf",
    "toy-Q8_0.gguf",
    "Q6_K/toy-Q6_K-00001-of-00002.gguf",
    "Q6_K/toy-Q6_K-00002-of-00002.gguf",
)


@pytest.mark.parametrize(
    ("argument", "model"),
    [
        ("hf:user/repo", RepositoryModel("user/repo", None)),
        ("hf:user/repo:Q4_0", RepositoryModel("user/repo", "Q4_0")),
        ("hf:user/re.po-1_2:a/b.gguf", RepositoryModel("user/re.po-1_2", "a/b.gguf")),
    ],
)
def test_names(argument: str, model: RepositoryModel) -> None:
    assert parse_repository_model(argument) == model
    assert str(model) == argument


@pytest.mark.parametrize("argument", ["hf:", "hf:user", "hf:user/", "hf:a/b/c", "hf:user/repo:", "hf:us er/repo"])
def test_names_that_are_none(argument: str) -> None:
    with pytest.raises(BadInput, match="hf:user/repo"):
        parse_repository_model(argument)


@pytest.mark.parametrize(
    ("choice", "file"),
    [
        (None, "toy-Q4_K_M.gguf"),
        ("q8_0", "toy-Q8_0.gguf"),
        ("Q6_K", "Q6_K/toy-Q6_K-00001-of-00002.gguf"),
        ("toy-BF16.gguf", "toy-BF16.gguf"),
        ("Q6_K/toy-Q6_K-00001-of-00002.gguf", "Q6_K/toy-Q6_K-00001-of-00002.gguf"),
    ],
)
def test_the_file_that_is_meant(choice: str | None, file: str) -> None:
    assert choose_file(FILES, RepositoryModel("user/toy", choice)) == file


@pytest.mark.parametrize(
    ("files", "file"),
    [
        (("m-Q8_0.gguf", "m-Q5_K_M.gguf"), "m-Q5_K_M.gguf"),
        (("m-UD-Q4_K_M.gguf", "m-Q2_K.gguf"), "m-UD-Q4_K_M.gguf"),
        (("z.gguf", "a.gguf"), "a.gguf"),
    ],
)
def test_the_preference(files: tuple[str, ...], file: str) -> None:
    assert choose_file(files, RepositoryModel("user/toy", None)) == file


def test_a_missing_quantisation_names_those_there_are() -> None:
    with pytest.raises(ModelNotFound, match=r"no 'Q3_K_S'; it has BF16, Q4_K_M, Q6_K, Q8_0"):
        choose_file(FILES, RepositoryModel("user/toy", "Q3_K_S"))


def test_a_repository_without_gguf() -> None:
    with pytest.raises(ModelNotFound, match="no GGUF file"):
        choose_file(("model.safetensors",), RepositoryModel("user/toy", None))


def test_all_parts_are_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install_hub(monkeypatch, tmp_path)
    for file in FILES:
        put(tmp_path, "user/toy", file, b"GGUF" * len(file))
    listener = Listener()
    store = Store(tmp_path / "models")
    path = fetch_repository_model(RepositoryModel("user/toy", "Q6_K"), store, listener.reporter, offline=False)
    assert path.name == "toy-Q6_K-00001-of-00002.gguf"
    assert path.with_name("toy-Q6_K-00002-of-00002.gguf").is_file()
    n_bytes = 2 * 4 * len(FILES[-1])
    assert listener.steps[-1] == (n_bytes, n_bytes)
    assert listener.steps == sorted(listener.steps)
    assert f"{n_bytes} bytes, from the Hugging Face repository user/toy" in listener.text
    assert not store.root.exists()


def test_a_full_disk_is_said_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cache = install_hub(monkeypatch, tmp_path)
    put(tmp_path, "user/toy", "toy.gguf", b"GGUF" * 100)
    store = replace(Store(tmp_path / "models"), free_bytes=lambda _folder: 10)
    with pytest.raises(DiskFull, match="set HF_HOME"):
        fetch_repository_model(RepositoryModel("user/toy", None), store, Listener().reporter, offline=False)
    assert not cache.exists()


def test_offline(tmp_path: Path) -> None:
    with pytest.raises(NetworkUnavailable, match="hf:user/toy:Q8_0"):
        fetch_repository_model(RepositoryModel("user/toy", "Q8_0"), Store(tmp_path), Listener().reporter, offline=True)
