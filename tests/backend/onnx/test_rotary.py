from __future__ import annotations

import math

import numpy as np
import pytest

from edgespec.backend.onnx.rotary import rotary_table
from edgespec.stepfile import RopeTable


def test_by_hand() -> None:
    cos, sin = rotary_table(RopeTable(100.0, 4, 2.0), 4, 7)
    assert cos.shape == sin.shape == (7, 2)
    assert cos.dtype == sin.dtype == np.float32
    for position in range(7):
        for pair, angle in enumerate((position / 2, position / 2 / math.sqrt(100))):
            assert cos[position, pair] == pytest.approx(math.cos(angle), abs=1e-7)
            assert sin[position, pair] == pytest.approx(math.sin(angle), abs=1e-7)


def test_pairs_beyond_the_turning_ones_stay() -> None:
    cos, sin = rotary_table(RopeTable(10000.0, 4, 1.0), 8, 3)
    assert (cos[:, 2:] == 1).all()
    assert (sin[:, 2:] == 0).all()
    assert (sin[1:, :2] != 0).all()
