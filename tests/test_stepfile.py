from __future__ import annotations

import errno
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgespec.errors import BadInput, CorruptModel, DiskFull, EdgeSpecError, ModelNotFound, UnsupportedModel
from edgespec.stepfile import (
    EMBEDDING,
    FACTS,
    GRAPH,
    HEAD_IDS,
    RopeTable,
    StepFile,
    read_step,
    write_step,
)

FILE = StepFile(
    architecture="gemma3",
    source_name="some model",
    source_fingerprint="abc",
    layers=(0, 2, 3),
    n_vocab=20,
    width=8,
    n_heads=4,
    n_kv_heads=2,
    head_dim=4,
    n_blocks=3,
    embedding_scale=8**0.5,
    rope=(RopeTable(1e6, 4, 8.0), RopeTable(1e4, 4, 1.0)),
    n_ranked=4,
    rows=(1, 8),
    n_ctx=64,
    token_hash="def",
    notes="made for a test",
    sliding_window=16,
)
IDS = np.array([0, 3, 4, 9, 19], dtype=np.int32)


def fill(folder: Path) -> StepFile:
    (folder / GRAPH).write_bytes(b"a graph")
    np.save(folder / EMBEDDING, np.zeros((20, 8), dtype=np.float16))
    np.save(folder / HEAD_IDS, IDS)
    return FILE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_step(tmp_path / "toy.step", fill)
    return tmp_path / "toy.step"


def refusal(folder: Path) -> EdgeSpecError:
    with pytest.raises(EdgeSpecError) as caught:
        read_step(folder)
    return caught.value


def test_what_is_written_is_read(folder: Path) -> None:
    found = read_step(folder)
    assert found.file == FILE
    assert found.head_ids is not None
    assert found.head_ids.tolist() == IDS.tolist()
    assert (found.embedding.shape, found.embedding.dtype.name) == ((20, 8), "float16")
    assert (found.name, found.graph, found.path) == ("toy", folder / GRAPH, folder)
    assert found.n_bytes == sum(file.stat().st_size for file in folder.iterdir())
    assert [entry.name for entry in folder.parent.iterdir()] == ["toy.step"]
    (folder / HEAD_IDS).unlink()
    assert read_step(folder).head_ids is None


def test_facts_have_their_defaults() -> None:
    raw = json.loads(FILE.to_json())
    del raw["notes"], raw["sliding_window"]
    assert StepFile.from_json(json.dumps(raw)) == replace(FILE, notes="", sliding_window=0)
    assert FILE.windowed
    assert not replace(FILE, sliding_window=0).windowed


def test_no_such_folder(tmp_path: Path) -> None:
    error = refusal(tmp_path / "none.step")
    assert isinstance(error, ModelNotFound)
    assert "there is no such folder; 'edgespec export' makes one from a GGUF" in str(error)
    (tmp_path / "file.step").write_text("")
    assert "it is a file, not the folder of a step model" in str(refusal(tmp_path / "file.step"))


@pytest.mark.parametrize("name", [FACTS, GRAPH, EMBEDDING])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    error = refusal(folder)
    assert isinstance(error, CorruptModel)
    assert str(error) == f"step model {folder}: {name} is missing; make it again with 'edgespec export'."


def test_another_version(folder: Path) -> None:
    raw = json.loads(FILE.to_json())
    for version in (0, 2, None, "1"):
        (folder / FACTS).write_text(json.dumps({**raw, "version": version}))
        error = refusal(folder)
        assert isinstance(error, UnsupportedModel)
        assert f"step.json is of version {version!r}, and this edgespec reads version 1" in str(error)


@pytest.mark.parametrize(
    "changed",
    [
        *({"n_vocab": 0}, {"n_vocab": "20"}, {"n_vocab": True}, {"n_blocks": 2}, {"layers": []}, {"layers": 3}),
        *({"n_heads": 3}, {"head_dim": 5}, {"n_ranked": 21}, {"rope": []}, {"rope": [1]}, {"rope": [{"base": 1.0}]}),
        {"rope": [{"base": 0.0, "n_dims": 4, "factor": 1.0}]},
        {"rope": [{"base": 1e4, "n_dims": 6, "factor": 1.0}]},
        *({"rows": []}, {"rows": [8, 1]}, {"rows": [0, 1]}, {"rows": [1, 1]}, {"rows": [128]}, {"rows": [1.5]}),
        *({"n_ctx": -1}, {"sliding_window": -1}, {"architecture": None}, {"embedding_scale": "1"}),
        {"embedding_scale": float("nan")},
    ],
    ids=str,
)
def test_facts_that_no_model_can_have(folder: Path, changed: dict[str, object]) -> None:
    (folder / FACTS).write_text(json.dumps({**json.loads(FILE.to_json()), **changed}))
    error = refusal(folder)
    assert isinstance(error, CorruptModel)
    assert "step.json cannot be used: " in str(error)


@pytest.mark.parametrize("key", ["architecture", "n_vocab", "rope", "token_hash"])
def test_a_missing_fact_is_named(folder: Path, key: str) -> None:
    raw = json.loads(FILE.to_json())
    del raw[key]
    (folder / FACTS).write_text(json.dumps(raw))
    assert f"step.json cannot be used: it lacks {key}" in str(refusal(folder))


@pytest.mark.parametrize("text", ["", "[]", "{", "\x00", "[" * 100_000])
def test_facts_that_are_none(folder: Path, text: str) -> None:
    (folder / FACTS).write_text(text)
    assert isinstance(refusal(folder), CorruptModel)
    (folder / FACTS).write_bytes(b"\xff\xfe")
    assert isinstance(refusal(folder), CorruptModel)


def damaged_arrays() -> dict[str, Callable[[Path], object]]:
    def saved(name: str, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> Callable[[Path], object]:
        return lambda folder: np.save(folder / name, array)

    return {
        "embedding.npy holds 19 x 8 float16, and step.json speaks of 20 x 8": saved(
            EMBEDDING, np.zeros((19, 8), dtype=np.float16)
        ),
        "embedding.npy holds 20 x 8 float64": saved(EMBEDDING, np.zeros((20, 8))),
        "embedding.npy cannot be used": lambda folder: (folder / EMBEDDING).write_bytes(b"\x93NUMPY"),
        "head_ids.npy cannot be used": lambda folder: (folder / HEAD_IDS).write_bytes(b""),
        "head_ids.npy holds 5 int64, and 4 int32 or more are needed": saved(HEAD_IDS, IDS.astype(np.int64)),
        "head_ids.npy holds 3 int32": saved(HEAD_IDS, IDS[:3]),
        "head_ids.npy holds one int32": saved(HEAD_IDS, np.array(3, dtype=np.int32)),
        "head_ids.npy does not ascend within 0 to 19": saved(HEAD_IDS, IDS[::-1]),
        "does not ascend": saved(HEAD_IDS, IDS + 1),
        "not ascend": saved(HEAD_IDS, IDS - 1),
        "model.onnx is empty": lambda folder: (folder / GRAPH).write_bytes(b""),
    }


@pytest.mark.parametrize("why", damaged_arrays())
def test_damaged_files(folder: Path, why: str) -> None:
    damaged_arrays()[why](folder)
    error = refusal(folder)
    assert isinstance(error, CorruptModel)
    assert why in str(error)
    assert error.remedy == "make it again with 'edgespec export'"


# -- writing ------------------------------------------------------------------------------------------------------


def test_what_exists_is_not_replaced(folder: Path) -> None:
    for path in (folder, folder / GRAPH):
        with pytest.raises(BadInput, match="it exists already; remove it, or give another --out"):
            write_step(path, fill)
    assert read_step(folder).file == FILE


@pytest.mark.parametrize(
    ("raised", "expected", "sentence"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), DiskFull, "No space left on device; make room"),
        (OSError(errno.EACCES, "Permission denied"), BadInput, "Permission denied; give another --out"),
        (KeyboardInterrupt("Ctrl-C"), KeyboardInterrupt, "Ctrl-C"),
        (CorruptModel("a", "b", "c"), CorruptModel, "a: b; c."),
    ],
    ids=str,
)
def test_half_a_folder_is_never_left(
    tmp_path: Path, raised: BaseException, expected: type[BaseException], sentence: str
) -> None:
    def fail(folder: Path) -> StepFile:
        fill(folder)
        raise raised

    with pytest.raises(expected, match=sentence):
        write_step(tmp_path / "deep" / "toy.step", fail)
    assert list((tmp_path / "deep").iterdir()) == []


def test_a_place_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot write"):
        write_step(tmp_path / "file" / "toy.step", fill)
