"""The GGUF container: key-values and the tensor table, read from a buffer that may be hostile.

Every count and length is checked against what is left of the buffer before it is used, so the work is bounded by the
buffer and nothing but `DamageError` is raised. Knows no file and no meaning of any key.
Layout: the GGUF specification, versions 2 and 3, little endian.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from edgespec.library.quant import TensorType, tensor_type

Scalar: TypeAlias = int | float | bool | str
Value: TypeAlias = Scalar | tuple[Scalar, ...]
Buffer: TypeAlias = bytes | mmap.mmap

VERSIONS: Final = (2, 3)

# Real files have at most a few hundred keys, some ten thousand tensors, some million strings and a few MB of kept text.
# Without these bounds a damaged count would keep the loops below running for hours, or fill the memory.
_MAX_KEYS = 1 << 16
_MAX_TENSORS = 1 << 17
_MAX_ARRAY_STRINGS = 1 << 22
_MAX_TEXT_BYTES = 1 << 26
_MAX_DIMS = 4

# Longer arrays are vocabularies; they are skipped and only their length is kept, unless they are asked for.
_MAX_KEPT_ITEMS = 1024

_DEFAULT_ALIGNMENT = 32

_STRING = 8
_ARRAY = 9
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}


class DamageError(Exception):
    """The buffer is no sound GGUF header; the one argument says why."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """`offset` counts from the start of the tensor data; `n_bytes` is 0 for a type of unknown size."""

    name: str
    dims: tuple[int, ...]
    type: TensorType
    offset: int

    @property
    def n_items(self) -> int:
        product = 1
        for dim in self.dims:
            product *= dim
        return product

    @property
    def n_bytes(self) -> int:
        return self.n_items // self.type.block_items * self.type.block_bytes if self.type.block_items else 0


@dataclass(frozen=True, slots=True)
class Container:
    """`values` holds scalars, strings, short arrays and those asked for; `array_lengths` the length of every array."""

    version: int
    values: Mapping[str, Value]
    array_lengths: Mapping[str, int]
    tensors: tuple[TensorInfo, ...]
    data_start: int

    @property
    def required_bytes(self) -> int:
        """Size the file must have for every tensor to lie inside it."""
        return max((self.data_start + tensor.offset + tensor.n_bytes for tensor in self.tensors), default=0)


class _Cursor:
    """A position in the buffer that cannot leave it."""

    __slots__ = ("buffer", "end", "n_strings_left", "n_text_bytes_left", "position")

    def __init__(self, buffer: Buffer, position: int) -> None:
        self.buffer = buffer
        self.position = position
        self.end = len(buffer)
        self.n_strings_left = _MAX_ARRAY_STRINGS
        self.n_text_bytes_left = _MAX_TEXT_BYTES

    def advance(self, n_bytes: int) -> int:
        start = self.position
        if n_bytes > self.end - start:
            raise DamageError(f"it ends after {self.end} bytes, inside its own header")
        self.position = start + n_bytes
        return start

    def scalar(self, layout: str) -> Scalar:
        start = self.advance(struct.calcsize(layout))
        value: Scalar = struct.unpack_from(layout, self.buffer, start)[0]
        return value

    def count(self, layout: str) -> int:
        return int(self.scalar(layout))

    def text(self) -> str:
        n_bytes = self.count("<Q")
        if n_bytes > self.n_text_bytes_left:
            raise DamageError(f"its header holds a text of {n_bytes} bytes")
        self.n_text_bytes_left -= n_bytes
        start = self.advance(n_bytes)
        return self.buffer[start : self.position].decode("utf-8", errors="replace")

    def skip_texts(self, count: int) -> None:
        """The hot loop: a vocabulary of 262,144 texts takes some 25 ms."""
        self.take_strings(count)
        unpack, buffer, end = struct.Struct("<Q").unpack_from, self.buffer, self.end
        position = self.position
        for _ in range(count):
            if position + 8 > end:
                break
            position += 8 + unpack(buffer, position)[0]
        self.advance(position - self.position)

    def texts(self, count: int) -> tuple[str, ...]:
        """An array of texts in full. Bytes that are no UTF-8 become surrogates, which tells them apart."""
        self.take_strings(count)
        texts = []
        for _ in range(count):
            n_bytes = self.count("<Q")
            start = self.advance(n_bytes)
            texts.append(self.buffer[start : self.position].decode("utf-8", errors="surrogateescape"))
        return tuple(texts)

    def scalars(self, layout: str, count: int) -> tuple[Scalar, ...]:
        """An array of numbers in full."""
        start = self.advance(count * struct.calcsize(layout))
        return struct.unpack_from(f"<{count}{layout[1:]}", self.buffer, start)

    def take_strings(self, count: int) -> None:
        if count > self.n_strings_left:
            raise DamageError(f"its header holds an array of {count} texts")
        self.n_strings_left -= count


def parse_container(buffer: Buffer, wanted: frozenset[str] = frozenset()) -> Container:
    """Read a GGUF of version 2 or 3 whose magic was checked before. Raises DamageError and nothing else.

    wanted: keys of arrays that are kept however long they are.
    """
    cursor = _Cursor(buffer, 4)
    version = cursor.count("<I")
    n_tensors, n_keys = cursor.count("<Q"), cursor.count("<Q")
    if n_keys > _MAX_KEYS or n_tensors > _MAX_TENSORS:
        raise DamageError(f"its header claims {n_keys} keys and {n_tensors} tensors")
    values: dict[str, Value] = {}
    array_lengths: dict[str, int] = {}
    for _ in range(n_keys):
        _read_pair(cursor, values, array_lengths, wanted)
    tensors = tuple(_read_tensor(cursor) for _ in range(n_tensors))
    alignment = _alignment(values)
    data_start = (cursor.position + alignment - 1) // alignment * alignment
    return Container(version, values, array_lengths, tensors, data_start)


def _read_pair(
    cursor: _Cursor, values: dict[str, Value], array_lengths: dict[str, int], wanted: frozenset[str]
) -> None:
    key, kind = cursor.text(), cursor.count("<I")
    if kind != _ARRAY:
        values[key] = _read_scalar(cursor, kind)
        return
    item_kind, length = cursor.count("<I"), cursor.count("<Q")
    array_lengths[key] = length
    if key in wanted:
        is_text = item_kind == _STRING
        values[key] = cursor.texts(length) if is_text else cursor.scalars(_layout(item_kind), length)
    elif length <= _MAX_KEPT_ITEMS:
        values[key] = tuple(_read_scalar(cursor, item_kind) for _ in range(length))
    elif item_kind == _STRING:
        cursor.skip_texts(length)
    else:
        cursor.advance(length * struct.calcsize(_layout(item_kind)))


def _read_scalar(cursor: _Cursor, kind: int) -> Scalar:
    return cursor.text() if kind == _STRING else cursor.scalar(_layout(kind))


def _layout(kind: int) -> str:
    layout = _SCALARS.get(kind)
    if layout is None:
        raise DamageError(f"its header has a value of unknown type {kind}")
    return layout


def _read_tensor(cursor: _Cursor) -> TensorInfo:
    name, n_dims = cursor.text(), cursor.count("<I")
    if n_dims > _MAX_DIMS:
        raise DamageError(f"its tensor {name[:40]!r} has {n_dims} dimensions")
    dims = tuple(cursor.count("<Q") for _ in range(n_dims))
    kind = tensor_type(cursor.count("<I"))
    if kind.block_items and dims and dims[0] % kind.block_items:
        raise DamageError(f"its tensor {name[:40]!r} has rows of {dims[0]} items, no multiple of {kind.block_items}")
    return TensorInfo(name, dims, kind, cursor.count("<Q"))


def _alignment(values: Mapping[str, Value]) -> int:
    alignment = values.get("general.alignment", _DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
        raise DamageError(f"its header states an alignment of {alignment!r}")
    return int(alignment)
