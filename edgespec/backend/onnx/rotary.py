"""Tables of rotary angles, computed once for every position that a cache can hold."""

from __future__ import annotations

import numpy as np

from edgespec.spec.ports import FloatArray
from edgespec.stepfile import RopeTable


def rotary_table(table: RopeTable, head_dim: int, n_positions: int) -> tuple[FloatArray, FloatArray]:
    """(cos, sin), each float32[n_positions, head_dim // 2]; angles in float64. Pairs that do not turn have angle 0."""
    frequencies = np.zeros(head_dim // 2)
    n_turning = table.n_dims // 2
    frequencies[:n_turning] = table.base ** (-2.0 * np.arange(n_turning) / table.n_dims)
    angles = np.arange(n_positions)[:, None] / table.factor * frequencies
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
