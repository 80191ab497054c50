"""Models of other programs: found where they lie, and nothing in those folders breaks the search."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from edgespec.library.foreign import ForeignModel, foreign_models, hub_files
from tests.library.toy_places import MODEL_LAYER, places_in, put_hub, put_ollama

GGUF = b"GGUF" + bytes(96)


def names(root: Path) -> list[str]:
    return [model.name for model in foreign_models(places_in(root))]


def only(root: Path) -> ForeignModel:
    (model,) = foreign_models(places_in(root))
    return model


def put(path: Path, content: bytes = GGUF) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_nothing_anywhere(tmp_path: Path) -> None:
    assert names(tmp_path) == []


def test_hugging_face(tmp_path: Path) -> None:
    link = put_hub(tmp_path, "user/toy-GGUF", "toy-Q4_K_M.gguf", GGUF)
    assert only(tmp_path) == ForeignModel("hf:user/toy-GGUF:Q4_K_M", link, 100, "Q4_K_M", "Hugging Face")


def test_hugging_face_names_stay_different(tmp_path: Path) -> None:
    for file in ("a-Q8_0.gguf", "b-Q8_0.gguf", "c.gguf", "Q6_K/c-Q6_K.gguf"):
        put_hub(tmp_path, "user/toy", file, GGUF)
    assert names(tmp_path) == [
        "hf:user/toy:Q6_K",
        "hf:user/toy:a-Q8_0.gguf",
        "hf:user/toy:b-Q8_0.gguf",
        "hf:user/toy:c.gguf",
    ]


def test_the_main_revision_wins(tmp_path: Path) -> None:
    put_hub(tmp_path, "user/toy", "toy.gguf", GGUF + b"old", "aaa", is_main=False)
    main = put_hub(tmp_path, "user/toy", "toy.gguf", GGUF, "bbb")
    old = put_hub(tmp_path, "user/toy", "gone.gguf", GGUF + b"x", "aaa", is_main=False)
    assert hub_files(places_in(tmp_path), "user/toy") == {"toy.gguf": main, "gone.gguf": old}
    assert hub_files(places_in(tmp_path), "user/other") == {}


def test_llama_cpp_and_lm_studio(tmp_path: Path) -> None:
    flat = put(tmp_path / "flat" / "user_toy_toy-Q4_0.gguf")
    put(tmp_path / "flat" / "manifest=user=toy=latest.json")
    studio = put(tmp_path / "lmstudio" / "pub" / "toy-GGUF" / "toy-IQ4_XS.gguf")
    assert foreign_models(places_in(tmp_path)) == (
        ForeignModel("llama.cpp:user_toy_toy-Q4_0", flat, 100, "Q4_0", "llama.cpp"),
        ForeignModel("lmstudio:pub/toy-GGUF/toy-IQ4_XS", studio, 100, "IQ4_XS", "LM Studio"),
    )


@pytest.mark.parametrize(
    ("manifest", "name"),
    [
        ("registry.example.org/library/llama3.2/1b", "ollama:llama3.2:1b"),
        ("registry.example.org/me/mine/latest", "ollama:me/mine:latest"),
        ("hub.example.org/user/toy-GGUF/Q4_0", "ollama:hub.example.org/user/toy-GGUF:Q4_0"),
    ],
)
def test_ollama(tmp_path: Path, manifest: str, name: str) -> None:
    blob = put_ollama(tmp_path, manifest, GGUF, "Q4_0")
    assert only(tmp_path) == ForeignModel(name, blob, 100, "Q4_0", "Ollama")


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"{",
        b"[1]",
        b"\xff\xfe",
        b"[" * 100_000,
        b" " * (1 << 20) + b"{}",
        b'{"layers": 3}',
        b'{"layers": [null, 3, {}]}',
        json.dumps({"layers": [{"mediaType": MODEL_LAYER, "digest": 7}]}).encode(),
        json.dumps({"layers": [{"mediaType": MODEL_LAYER, "digest": "sha256:../../../etc/passwd"}]}).encode(),
        json.dumps({"layers": [{"mediaType": MODEL_LAYER, "digest": "sha256:" + "0" * 64}]}).encode(),
    ],
)
def test_ollama_manifests_that_lead_nowhere(tmp_path: Path, manifest: bytes) -> None:
    put(tmp_path / "ollama" / "manifests" / "registry.example.org" / "library" / "bad" / "latest", manifest)
    good = put_ollama(tmp_path, "registry.example.org/library/good/latest", GGUF)
    assert only(tmp_path).path == good


def test_an_ollama_model_without_configuration(tmp_path: Path) -> None:
    put_ollama(tmp_path, "registry.example.org/library/toy/latest", GGUF, "Q8_0")
    for blob in (tmp_path / "ollama" / "blobs").iterdir():
        if blob.read_bytes() != GGUF:
            blob.unlink()
    assert only(tmp_path).quantisation == ""


def test_split_models_are_listed_once_and_whole(tmp_path: Path) -> None:
    folder = tmp_path / "lmstudio" / "pub" / "toy"
    put(folder / "toy-Q4_0-00001-of-00002.gguf")
    put(folder / "toy-Q4_0-00002-of-00002.gguf")
    put(folder / "cut-00001-of-00002.gguf")
    assert only(tmp_path).name == "lmstudio:pub/toy/toy-Q4_0-00001-of-00002"
    assert only(tmp_path).size_bytes == 200


def test_what_is_no_model_is_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "lmstudio" / "pub" / "toy"
    put(folder / "mmproj-toy-F16.gguf")
    put(folder / "toy.imatrix.gguf")
    put(folder / "page.gguf", b"<html>")
    put(folder / "empty.gguf", b"")
    put(folder / "notes.txt")
    (folder / "folder.gguf").mkdir()
    put(tmp_path / "hub" / "models--nouser" / "snapshots" / "abc" / "m.gguf")
    put(tmp_path / "hub" / "datasets--user--toy" / "snapshots" / "abc" / "m.gguf")
    put(tmp_path / "hub" / "version.txt", b"1")
    put(tmp_path / "lmstudio" / "a" / "b" / "c" / "d" / "e" / "too-deep.gguf")
    assert names(tmp_path) == []


def test_links_that_lead_nowhere_or_round_in_circles(tmp_path: Path) -> None:
    folder = tmp_path / "lmstudio" / "pub" / "toy"
    good = put(folder / "toy.gguf")
    (folder / "dangling.gguf").symlink_to(tmp_path / "gone")
    (folder / "self.gguf").symlink_to(folder / "self.gguf")
    (folder / "loop").symlink_to(tmp_path / "lmstudio", target_is_directory=True)
    put_hub(tmp_path, "user/toy", "toy.gguf", GGUF)
    for blob in (tmp_path / "hub" / "models--user--toy" / "blobs").iterdir():
        blob.unlink()
    assert only(tmp_path).path == good


def test_a_name_a_terminal_would_obey_is_passed_over(tmp_path: Path) -> None:
    put(tmp_path / "lmstudio" / "pub" / "toy" / "\x1b[31mred.gguf")
    assert names(tmp_path) == []


def test_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    for name in ("hub", "flat", "ollama", "lmstudio"):
        put(tmp_path / name)
    assert names(tmp_path) == []


def test_folders_that_must_not_be_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As an unprivileged user meets them; root may read everything, so the refusal is made here."""
    put(tmp_path / "lmstudio" / "secret" / "toy" / "m.gguf")
    good = put(tmp_path / "lmstudio" / "open" / "toy" / "m.gguf")
    scandir = os.scandir

    def refusing(folder: str | os.PathLike[str]) -> os._ScandirIterator[str]:
        if Path(folder).name == "secret":
            raise PermissionError(13, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refusing)
    assert only(tmp_path).path == good
