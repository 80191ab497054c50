"""Facts of whole, cut and wrong model files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgespec.errors import CorruptModel, EdgeSpecError, ModelNotFound, UnsupportedModel
from edgespec.library.header import read_header
from tests.library.toy_gguf import raw_header, raw_tensor, write_model, write_part


def test_facts_of_a_sound_model(tmp_path: Path) -> None:
    path = write_model(tmp_path / "toy.gguf", template="{{ x }}")
    header = read_header(path)
    assert (header.path, header.parts, header.split_count) == (path, (path,), 1)
    assert (header.kind, header.architecture, header.name, header.size_label) == ("model", "llama", "Toy", "1K")
    assert (header.quantisation, header.version) == ("Q8_0", 3)
    assert (header.context_length, header.block_count, header.embedding_length) == (512, 2, 64)
    assert (header.feed_forward_length, header.sliding_window, header.n_vocab) == (128, 128, 3)
    assert (header.head_count, header.head_counts_kv) == (4, (2, 1))
    assert (header.key_length, header.value_length) == (16, 16)
    assert (header.chat_template, header.has_chat_template) == ("{{ x }}", True)
    assert header.n_parameters == 3 * 64 + 8 * 64
    assert header.tensor_bytes == 3 * 64 * 4 + 8 * 68
    assert header.required_bytes == path.stat().st_size


def test_what_is_not_stated_is_zero_or_empty(tmp_path: Path) -> None:
    path = tmp_path / "bare.gguf"
    path.write_bytes(raw_header(1, 0, raw_tensor(b"t", (32,), 2, 0)).ljust(4096, b"\0"))
    header = read_header(path)
    assert (header.name, header.architecture, header.kind) == ("bare", "", "model")
    assert (header.context_length, header.head_count, header.key_length, header.sliding_window) == (0, 0, 0, 0)
    assert (header.quantisation, header.chat_template, header.has_chat_template) == ("Q4_0", None, False)


@pytest.mark.parametrize("given_part", [1, 2])
def test_a_split_model_is_one_model(tmp_path: Path, given_part: int) -> None:
    parts = [write_part(tmp_path / f"m-{number:05d}-of-00002.gguf", number - 1, 2) for number in (1, 2)]
    header = read_header(parts[given_part - 1])
    assert header.path == parts[0]
    assert header.parts == tuple(parts)
    assert header.n_parameters == 2 * 4 * 32
    assert header.required_bytes == sum(part.stat().st_size for part in parts)
    assert [tensor.name for tensor in header.tensors] == ["blk.0.weight", "blk.1.weight"]


def test_a_truncated_part_is_found(tmp_path: Path) -> None:
    parts = [write_part(tmp_path / f"m-{number:05d}-of-00002.gguf", number - 1, 2) for number in (1, 2)]
    parts[1].write_bytes(parts[1].read_bytes()[:-1])
    with pytest.raises(CorruptModel, match=r"m-00002-of-00002.*incomplete"):
        read_header(parts[0])


def test_a_renamed_part_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorruptModel, match="model of 2 parts"):
        read_header(write_part(tmp_path / "renamed.gguf", 0, 2))


def test_a_missing_file_names_its_neighbours(tmp_path: Path) -> None:
    write_model(tmp_path / "smollm2.gguf")
    with pytest.raises(ModelNotFound, match=r"smolm2\.gguf.*did you mean .*smollm2\.gguf"):
        read_header(tmp_path / "smolm2.gguf")


@pytest.mark.parametrize("name", ["no/such/folder/m.gguf", "nul\0byte.gguf"])
def test_a_path_that_leads_nowhere(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelNotFound, match="edgespec models"):
        read_header(tmp_path / name)


def test_a_folder_names_what_is_in_it(tmp_path: Path) -> None:
    write_model(tmp_path / "inside.gguf")
    with pytest.raises(CorruptModel, match=r"it is a folder.*inside\.gguf"):
        read_header(tmp_path)


def test_what_is_no_regular_file_is_not_opened() -> None:
    with pytest.raises(CorruptModel, match="no regular file"):
        read_header(Path(os.devnull))


@pytest.mark.parametrize(
    ("content", "why"), [(b"", "empty"), (b"PK\x03\x04", "zip archive"), (b"GGUF\x03\0\0\0", "ends after 8 bytes")]
)
def test_no_gguf(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(CorruptModel, match=why):
        read_header(path)


@pytest.mark.parametrize(
    ("version", "why"), [(1, "version 1"), (4, "version 4"), (3 << 24, "big-endian")], ids=["old", "new", "big-endian"]
)
def test_versions_that_are_not_read(tmp_path: Path, version: int, why: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(raw_header(0, 0, version=version))
    with pytest.raises(UnsupportedModel, match=why):
        read_header(path)


def test_an_incomplete_download_states_both_sizes(tmp_path: Path) -> None:
    path = write_model(tmp_path / "toy.gguf")
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    with pytest.raises(CorruptModel, match=f"incomplete.*{len(whole) - 100} bytes.*{len(whole)}"):
        read_header(path)


def test_a_header_that_asks_for_the_impossible(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(raw_header(1, 0, raw_tensor(b"t", (1 << 40, 1 << 40), 0, 0)).ljust(4096, b"\0"))
    with pytest.raises(CorruptModel, match="asks for a file of"):
        read_header(path)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_file_is_read_or_refused_with_a_sentence(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "toy.gguf"
    changed = bytearray(write_model(path).read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(changed[: data.draw(st.integers(0, len(changed)))])
    refusal = None
    try:
        read_header(path)
    except EdgeSpecError as error:
        refusal = error
    assert refusal is None or str(path) in str(refusal)
