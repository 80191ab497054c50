"""The GGUF container: sound files read as the reference reads them, and no bytes break the parser."""

from __future__ import annotations

import struct
from pathlib import Path

import gguf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.library.container import DamageError, parse_container
from tests.library.toy_gguf import raw_header, raw_tensor, raw_text, write_model, write_vocabulary

STRING, ARRAY, UINT32, UINT8 = 8, 9, 4, 0


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_model(tmp_path_factory.mktemp("gguf") / "toy.gguf", template="{{ x }}").read_bytes()


def test_agrees_with_the_reference_reader(tmp_path: Path) -> None:
    path = write_model(tmp_path / "toy.gguf", template="{{ x }}")
    reference = gguf.GGUFReader(path)
    container = parse_container(path.read_bytes())
    assert container.required_bytes == path.stat().st_size
    for tensor, expected in zip(container.tensors, reference.tensors, strict=True):
        assert tensor.name == expected.name
        assert tensor.dims == tuple(int(dim) for dim in expected.shape)
        assert tensor.type.name == expected.tensor_type.name
        assert tensor.n_bytes == expected.n_bytes
        assert container.data_start + tensor.offset == expected.data_offset
    for key, field in reference.fields.items():
        if not key.startswith("GGUF."):
            contents = field.contents()
            assert container.values[key] == (tuple(contents) if isinstance(contents, list) else contents)


def test_a_vocabulary_is_skipped_and_counted(tmp_path: Path) -> None:
    container = parse_container(write_vocabulary(tmp_path / "toy.gguf", 5000).read_bytes())
    assert container.array_lengths == {"tokenizer.ggml.tokens": 5000, "tokenizer.ggml.scores": 5000}
    assert "tokenizer.ggml.tokens" not in container.values
    assert container.tensors[0].name == "token_embd.weight"


def test_a_tensor_type_of_the_future_is_kept_without_a_size() -> None:
    container = parse_container(raw_header(1, 0, raw_tensor(b"t", (32,), 777, 64)))
    assert container.tensors[0].n_bytes == 0
    assert container.required_bytes == container.data_start + 64


def pair(key: bytes, kind: int, value: bytes) -> bytes:
    return raw_text(key) + struct.pack("<I", kind) + value


HUGE = 1 << 62
DAMAGED = {
    "nothing after the magic": b"GGUF",
    "absurd key count": raw_header(0, HUGE),
    "absurd tensor count": raw_header(HUGE, 0),
    "key beyond the end": raw_header(0, 1, struct.pack("<Q", HUGE)),
    "text just beyond the end": raw_header(0, 1, struct.pack("<Q", 9) + b"short"),
    "unknown value type": raw_header(0, 1, pair(b"k", 99, b"")),
    "array of arrays": raw_header(0, 1, pair(b"k", ARRAY, struct.pack("<IQ", ARRAY, 1))),
    "absurd text array": raw_header(0, 1, pair(b"k", ARRAY, struct.pack("<IQ", STRING, HUGE))),
    "absurd number array": raw_header(0, 1, pair(b"k", ARRAY, struct.pack("<IQ", UINT32, HUGE))),
    "text array that leaves the file": raw_header(
        0, 1, pair(b"k", ARRAY, struct.pack("<IQ", STRING, 2000) + struct.pack("<Q", (1 << 64) - 1))
    ),
    "five dimensions": raw_header(1, 0, raw_tensor(b"t", (1, 1, 1, 1, 1), 0, 0)),
    "row that is no multiple of its block": raw_header(1, 0, raw_tensor(b"t", (33,), 2, 0)),
    "alignment of zero": raw_header(0, 1, pair(b"general.alignment", UINT32, struct.pack("<I", 0))),
    "alignment that is no power of two": raw_header(0, 1, pair(b"general.alignment", UINT32, struct.pack("<I", 48))),
    "alignment that is a text": raw_header(0, 1, pair(b"general.alignment", STRING, raw_text(b"x"))),
    "text larger than anything kept": raw_header(0, 1, struct.pack("<Q", (1 << 26) + 1)),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damage_is_named(case: str) -> None:
    with pytest.raises(DamageError):
        parse_container(DAMAGED[case])


@settings(max_examples=400)
@given(st.lists(st.tuples(st.integers(4, 1500), st.integers(0, 255)), min_size=1, max_size=8))
def test_changed_bytes_are_read_or_refused(sound: bytes, changes: list[tuple[int, int]]) -> None:
    changed = bytearray(sound)
    for place, value in changes:
        changed[place % len(sound)] = value
    refused_or_read(bytes(changed))


@settings(max_examples=200)
@given(st.integers(4, 1500), st.integers(0, (1 << 64) - 1), st.sampled_from(["<Q", "<I", "<H"]))
def test_changed_counts_are_read_or_refused(sound: bytes, place: int, value: int, layout: str) -> None:
    changed = bytearray(sound)
    struct.pack_into(layout, changed, place % (len(sound) - 8), value % (1 << 8 * struct.calcsize(layout)))
    refused_or_read(bytes(changed))


@given(st.data())
def test_every_cut_is_read_or_refused(sound: bytes, data: st.DataObject) -> None:
    refused_or_read(sound[: data.draw(st.integers(4, len(sound)))])


def refused_or_read(buffer: bytes) -> None:
    """The parser promises DamageError and nothing else; anything it raises besides fails the test."""
    damage = None
    try:
        parse_container(buffer)
    except DamageError as error:
        damage = error
    assert damage is None or str(damage)


def test_a_long_array_is_kept_where_it_is_wanted(tmp_path: Path) -> None:
    data = write_vocabulary(tmp_path / "toy.gguf", 5000).read_bytes()
    container = parse_container(data, frozenset(("tokenizer.ggml.tokens", "tokenizer.ggml.scores", "no.such.key")))
    assert container.values["tokenizer.ggml.tokens"] == tuple(f"token{number}" for number in range(5000))
    assert container.values["tokenizer.ggml.scores"] == (0.0,) * 5000
    rest = parse_container(data)
    assert (container.array_lengths, container.tensors) == (rest.array_lengths, rest.tensors)


@pytest.mark.parametrize("kind", [STRING, UINT32, 99])
@pytest.mark.parametrize("length", [7, 1 << 20, 1 << 40, HUGE])
def test_a_wanted_array_that_is_too_long_is_damage(kind: int, length: int) -> None:
    """It ends before its length says, and the length is not believed."""
    body = pair(b"wanted", ARRAY, struct.pack("<IQ", kind, length) + raw_text(b"one"))
    with pytest.raises(DamageError):
        parse_container(raw_header(0, 1, body), frozenset(("wanted",)))
