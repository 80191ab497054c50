"""Facts about the machine, and about the container that may allow less than it."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from edgespec.backend import machine

GIB = 1 << 30


def cgroup(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / name.replace("_", ".", 1)).write_text(text, encoding="utf-8")
    return folder


def test_this_machine_has_cores_and_memory() -> None:
    assert 1 <= machine.usable_cores() <= (os.cpu_count() or 1)
    assert 0 < machine.available_memory_bytes() <= psutil.virtual_memory().total


def test_the_description_is_one_line_and_stays_the_same() -> None:
    description = machine.describe()
    assert description == machine.describe()
    assert "\n" not in description
    assert f"{machine.usable_cores()} cores" in description


def test_a_machine_without_containers_is_taken_as_it_is(tmp_path: Path) -> None:
    assert machine.usable_cores(tmp_path / "absent") >= 1
    assert machine.available_memory_bytes(tmp_path / "absent") > 0


@pytest.mark.parametrize(
    ("quota", "most"),
    [
        ("100000 100000", 1),
        ("50000 100000", 1),  # half a core
        ("199999 100000", 1),
        ("max 100000", 512),
        ("100000 0", 512),
        ("nonsense", 512),
        ("", 512),
    ],
)
def test_a_container_limits_the_cores(quota: str, most: int, tmp_path: Path) -> None:
    cores = machine.usable_cores(cgroup(tmp_path, cpu_max=quota))
    assert cores == min(machine.usable_cores(tmp_path / "absent"), most)


@pytest.mark.parametrize(
    ("limit", "used", "stat", "available"),
    [
        (f"{3 * GIB}\n", f"{1 * GIB}\n", "", 2 * GIB),
        (f"{3 * GIB}", f"{3 * GIB}", "", 0),
        (f"{3 * GIB}", f"{4 * GIB}", "", 0),
        # A model's file that was read before counts as used, but makes room for what needs it.
        (f"{3 * GIB}", f"{3 * GIB}", f"anon 5\ninactive_file {GIB}\nactive_file 7\n", GIB),
        ("max", f"{GIB}", "", None),
        (f"{3 * GIB}", "", "", None),
    ],
)
def test_a_container_limits_the_memory(
    limit: str, used: str, stat: str, available: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=64 * GIB))
    found = machine.available_memory_bytes(cgroup(tmp_path, memory_max=limit, memory_current=used, memory_stat=stat))
    assert found == (64 * GIB if available is None else available)


def test_a_container_of_a_large_limit_leaves_what_is_free(tmp_path: Path) -> None:
    limits = cgroup(tmp_path, memory_max=str(1 << 50), memory_current="0")
    assert machine.available_memory_bytes(limits) <= psutil.virtual_memory().total
