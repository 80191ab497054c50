"""Frames come back as they were written; everything else is refused in bounded time and memory."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from edgespec.backend.frames import BadFrame, Frame, Kind, read, write

arrays = st.one_of(
    hnp.arrays(np.int32, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)),
    hnp.arrays(np.float32, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)),
)
frames = st.builds(
    Frame,
    st.sampled_from(list(Kind)),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4).map(tuple),
    st.lists(arrays, max_size=3).map(tuple),
    st.lists(st.text(st.characters(codec="utf-8")), max_size=2).map(tuple),
)


def spelled(frame: Frame) -> bytes:
    out = io.BytesIO()
    write(out, frame)
    return out.getvalue()


@given(st.lists(frames, max_size=3))
def test_what_is_written_is_read(sent: list[Frame]) -> None:
    stream = io.BytesIO(b"".join(spelled(frame) for frame in sent))
    for frame in sent:
        got = read(stream)
        assert (got.kind, got.numbers, got.texts) == (frame.kind, frame.numbers, frame.texts)
        assert len(got.arrays) == len(frame.arrays)
        for ours, theirs in zip(got.arrays, frame.arrays, strict=True):
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
            assert ours.tobytes() == theirs.tobytes()  # NaN keeps its bits
            assert not ours.flags.writeable
    with pytest.raises(EOFError):
        read(stream)


@given(frames, st.data())
def test_a_cut_frame_is_an_end_and_a_damaged_one_never_hangs(frame: Frame, data: st.DataObject) -> None:
    whole = spelled(frame)
    with pytest.raises(EOFError):
        read(io.BytesIO(whole[: data.draw(st.integers(0, len(whole) - 1))]))
    place = data.draw(st.integers(0, len(whole) - 1))
    damaged = bytearray(whole)
    damaged[place] = data.draw(st.integers(0, 255))
    stream = io.BytesIO(bytes(damaged))
    try:
        read(stream)
    except (BadFrame, EOFError):
        return
    assert stream.tell() == len(whole)


@given(st.binary(min_size=12, max_size=200))
def test_garbage_is_no_frame(garbage: bytes) -> None:
    with pytest.raises(BadFrame, match="no frame starts with"):
        read(io.BytesIO(b"llama" + garbage))


def test_a_body_that_says_too_little_or_too_much() -> None:
    whole = bytearray(spelled(Frame(Kind.DONE, (1,))))
    whole[5] = 0
    with pytest.raises(BadFrame, match="8 bytes too many in a frame of kind 6"):
        read(io.BytesIO(bytes(whole)))
    whole[5] = 2
    with pytest.raises(BadFrame, match="16 bytes wanted, 8 left"):
        read(io.BytesIO(bytes(whole)))


def test_other_dtypes_are_a_mistake() -> None:
    with pytest.raises(TypeError, match="float64"):
        write(io.BytesIO(), Frame(Kind.RUN, (), (np.zeros(2),)))
