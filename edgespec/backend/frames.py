"""Binary frames over a pipe: small integers, numpy arrays as raw bytes, a few sentences. Never pickle: a frame is data.

Layout, little endian: magic, kind, how many numbers, arrays and texts, bytes of the body; then the body: the numbers as
int64, per array its type, dimensions, shape and data, per text its bytes and UTF-8. Knows no process and no model.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import IO, Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_MAGIC = b"eSf1"
_HEADER = struct.Struct("<4sBBBBI")
_ARRAY = struct.Struct("<BB")
_LENGTH = struct.Struct("<I")
_DTYPES = (np.dtype("<i4"), np.dtype("<f4"))
# Step frames hold some hundred kilobytes at most; more is the length field of garbage, and would be waited for.
_MAX_BODY = 1 << 26


class Kind(IntEnum):
    """Calls are answered by RANKED, DONE, REFUSED or FAILED; READY is a child's first frame."""

    RUN = 1
    READ = 2
    KEEP = 3
    READY = 4
    RANKED = 5
    DONE = 6
    REFUSED = 7
    FAILED = 8


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """arrays: int32 or float32, of any shape."""

    kind: Kind
    numbers: tuple[int, ...] = ()
    arrays: tuple[Array, ...] = ()
    texts: tuple[str, ...] = ()


class BadFrame(ValueError):
    """What came through the pipe is no frame."""


def write(stream: IO[bytes], frame: Frame) -> None:
    """One write and a flush. Raises OSError when nobody reads, TypeError for another dtype."""
    body = b"".join(_body(frame))
    counts = (len(frame.numbers), len(frame.arrays), len(frame.texts))
    stream.write(_HEADER.pack(_MAGIC, frame.kind, *counts, len(body)) + body)
    stream.flush()


def read(stream: IO[bytes]) -> Frame:
    """The next frame; its arrays are read-only. Raises EOFError where the stream ends, BadFrame for nonsense."""
    magic, kind, n_numbers, n_arrays, n_texts, n_bytes = _HEADER.unpack(_exactly(stream, _HEADER.size))
    if magic != _MAGIC or n_bytes > _MAX_BODY:
        raise BadFrame(f"no frame starts with {magic!r}")
    body = _Body(_exactly(stream, n_bytes))
    try:
        numbers = tuple(struct.unpack(f"<{n_numbers}q", body.take(8 * n_numbers)))
        arrays = tuple(body.array() for _ in range(n_arrays))
        texts = tuple(body.text() for _ in range(n_texts))
        frame = Frame(Kind(kind), numbers, arrays, texts)
    except (IndexError, ValueError, struct.error) as error:
        raise BadFrame(f"a frame of kind {kind} cannot be read: {error}") from error
    if body.left:
        raise BadFrame(f"{body.left} bytes too many in a frame of kind {kind}")
    return frame


def _body(frame: Frame) -> Iterator[bytes]:
    yield struct.pack(f"<{len(frame.numbers)}q", *frame.numbers)
    for array in frame.arrays:
        if array.dtype not in _DTYPES:
            raise TypeError(f"a frame carries no {array.dtype}")
        yield _ARRAY.pack(_DTYPES.index(array.dtype), array.ndim)
        yield struct.pack(f"<{array.ndim}I", *array.shape)
        yield array.tobytes()
    for text in frame.texts:
        spelled = text.encode("utf-8", "replace")
        yield _LENGTH.pack(len(spelled)) + spelled


class _Body:
    """Takes a body apart from its front."""

    __slots__ = ("_at", "_bytes")

    def __init__(self, content: bytes) -> None:
        self._bytes = content
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._bytes) - self._at

    def take(self, n: int) -> bytes:
        if n > self.left:
            raise IndexError(f"{n} bytes wanted, {self.left} left")
        self._at += n
        return self._bytes[self._at - n : self._at]

    def array(self) -> Array:
        code, n_dims = _ARRAY.unpack(self.take(_ARRAY.size))
        shape = struct.unpack(f"<{n_dims}I", self.take(4 * n_dims))
        n = 1
        for size in shape:
            n *= size  # Python's integers: garbage must not wrap round
        return np.frombuffer(self.take(n * _DTYPES[code].itemsize), _DTYPES[code]).reshape(shape)

    def text(self) -> str:
        (n,) = _LENGTH.unpack(self.take(_LENGTH.size))
        return self.take(n).decode("utf-8", "replace")


def _exactly(stream: IO[bytes], n: int) -> bytes:
    """n bytes. A buffered stream reads until it has them or ends."""
    content = stream.read(n)
    if len(content) < n:
        raise EOFError(f"{len(content)} of {n} bytes")
    return content
