"""A published table of what overlapping should give, with the profiles it was made from.

Speed-ups over plain decoding: in turn, side by side with the drafter's own chain only, with recovery branches too, and
the bound that a free drafter would reach. A slowdown of 5 % for the target and 10 % for the drafter, 0.3 ms to hand
tokens over, chains of at most 7 tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from edgespec.spec.latency import Beside, Draft
from edgespec.spec.outcomes import constant

MOST = 7
RANKS = (0.45, 0.15, 0.08, 0.05)
BESIDE = Beside(target_slowdown=0.05, draft_slowdown=0.10)
HANDOVER = 0.3e-3


def lines(points: Sequence[tuple[int, float]]) -> tuple[float, ...]:
    """Relative cost by rows, on a line between the measured widths. Index 0 is not read."""
    found = [1.0]
    for (low, start), (high, end) in pairwise(points):
        found += [start + (end - start) * (rows - low) / (high - low) for rows in range(low, high)]
    return (*found, points[-1][1])


# Kernel figures: llama.cpp Metal q4_0 on an M4 Pro; ds4 on an M1 Ultra, (34 + 10.9 n) / 37; MLX on an M5 Max, a 70B of
# 4 bits; and one that grows by 3 % a row.
PROFILES = {
    "metal": lines([(1, 1.0), (2, 1.81), (4, 3.83), (8, 7.44)]),
    "ds4": (1.0, 1.0, *((34 + 10.9 * rows) / 37 for rows in range(2, 9))),
    "mlx": lines([(1, 1.0), (3, 1.12), (5, 1.48), (8, 2.25)]),
    "flat": (1.0, *(1.0 + 0.03 * (rows - 1) for rows in range(1, 9))),
}

_TABLE = """
metal 25 1  0.86/0.83/0.83/0.88  0.94/0.91/0.91/0.97  0.99/0.96/0.97/1.02
metal 25 5  0.79/0.78/0.82/0.88  0.87/0.88/0.90/0.97  0.91/0.94/0.96/1.02
ds4   25 1  1.03/1.00/1.02/1.09  1.23/1.19/1.22/1.30  1.45/1.42/1.45/1.55
ds4   25 5  0.93/0.93/0.98/1.09  1.04/1.08/1.12/1.30  1.18/1.27/1.31/1.55
mlx   25 1  1.62/1.57/1.63/1.75  1.91/1.87/1.94/2.10  2.24/2.24/2.31/2.51
mlx   25 5  1.28/1.31/1.37/1.75  1.51/1.63/1.68/2.10  1.68/1.92/1.96/2.51
flat  25 5  1.33/1.36/1.43/2.07  1.61/1.75/1.76/2.97  1.92/2.27/2.27/4.01
flat  10 5  1.03/0.99/0.99/2.07  1.12/1.09/1.09/2.97  1.23/1.20/1.20/4.01
"""


@dataclass(frozen=True)
class Cell:
    """One cell of the table: T(1) and a drafted token in ms, the acceptance, and the four speed-ups."""

    profile: str
    t1_ms: float
    step_ms: float
    acceptance: float
    serial: float
    chain_only: float
    recovery: float
    bound: float

    @property
    def passes(self) -> tuple[float, ...]:
        return tuple(self.t1_ms * 1e-3 * cost for cost in PROFILES[self.profile])

    @property
    def chain(self) -> Draft:
        return Draft(self.step_ms * 1e-3, constant(self.acceptance), handover_seconds=HANDOVER)

    @property
    def branching(self) -> Draft:
        return Draft(self.step_ms * 1e-3, constant(self.acceptance), RANKS, handover_seconds=HANDOVER)

    def __str__(self) -> str:
        return f"{self.profile}-{self.t1_ms:.0f}-{self.step_ms:.0f}-{self.acceptance}"


def _cells() -> list[Cell]:
    found: list[Cell] = []
    for line in _TABLE.split("\n"):
        if line:
            profile, t1, step, *cells = line.split()
            for acceptance, cell in zip((0.60, 0.75, 0.85), cells, strict=True):
                serial, chain_only, recovery, bound = map(float, cell.split("/"))
                found.append(Cell(profile, float(t1), float(step), acceptance, serial, chain_only, recovery, bound))
    return found


CELLS = _cells()
