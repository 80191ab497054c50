from __future__ import annotations

import pytest

from edgespec.backend.llama.devices import Device, gpu_free_bytes
from edgespec.backend.llama.native import supports_gpu

CPU, GPU, INTEGRATED, BLAS = 0, 1, 2, 3


@pytest.mark.parametrize(
    ("devices", "found"),
    [
        ([], ()),
        ([Device(CPU, 0), Device(BLAS, 0)], ()),
        ([Device(GPU, 7), Device(CPU, 0)], (7,)),
        ([Device(GPU, 7), Device(INTEGRATED, 50), Device(GPU, 9), Device(CPU, 0)], (7, 9)),
        ([Device(INTEGRATED, 50), Device(CPU, 0)], (50,)),
    ],
)
def test_integrated_gpus_count_only_where_there_are_no_others(devices: list[Device], found: tuple[int, ...]) -> None:
    assert gpu_free_bytes(lambda: devices) == found


def test_this_build_tells_what_it_has() -> None:
    found = gpu_free_bytes()
    assert all(free > 0 for free in found)
    assert supports_gpu() or found == ()
