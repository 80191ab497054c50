from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from edgespec.backend.onnx.lane import Lane, bucket_for, new_cells, row_inputs
from edgespec.backend.onnx.session import OnnxSettings, input_shapes, open_session
from edgespec.errors import EngineFailure
from edgespec.stepfile import read_step
from tests.backend.onnx.toy_graph import FILE, WINDOWED, Toy


def test_buckets() -> None:
    sizes = sorted({bucket_for(n, 1000) for n in range(1, 1001)})
    assert sizes == [64, 96, 128, 192, 256, 384, 512, 768, 1000]
    assert all(bucket_for(size, 1000) == size for size in sizes)
    assert bucket_for(65, 1000) == 96
    assert bucket_for(1, 40) == 40


def test_every_input_has_a_buffer() -> None:
    for file in (FILE, WINDOWED):
        wanted = {name for name in input_shapes(file) if not name.startswith("past") and not name.startswith("mask")}
        assert set(row_inputs(file, 2)) == wanted


@pytest.fixture
def session(tmp_path: Path) -> onnxruntime.InferenceSession:
    return open_session(read_step(Toy().write(tmp_path / "toy.step")), OnnxSettings())


def test_it_reads_the_cells_it_was_made_with(session: onnxruntime.InferenceSession) -> None:
    found = []
    zeros, ones = new_cells(FILE, 8), np.ones_like(new_cells(FILE, 4))
    for cells in (zeros, ones, zeros):
        lane = Lane(session, FILE, 1, cells)
        lane.inputs["x"][:] = np.arange(FILE.width)
        lane.inputs["cos"][:] = 1.0
        lane.run()
        found.append((lane.logits.copy(), lane.new.copy()))
    assert (found[0][0] == found[2][0]).all()
    assert (found[0][0] != found[1][0]).any()
    assert found[0][1].any(axis=(1, 2, 3)).all()


def test_cells_written_later_are_seen(session: onnxruntime.InferenceSession) -> None:
    cells = new_cells(FILE, 8)
    lane = Lane(session, FILE, 1, cells)
    lane.inputs["x"][:] = np.arange(FILE.width)
    lane.run()
    before = lane.logits.copy()
    cells[:] = 1.0
    lane.run()
    assert (lane.logits != before).any()


def test_what_the_library_raises_is_an_error_of_ours(session: onnxruntime.InferenceSession) -> None:
    lane = Lane(session, FILE, 1, new_cells(FILE, 8)[:, :, :, :6].copy())  # heads of another size
    with pytest.raises(EngineFailure, match="the draft's step failed"):
        lane.run()
