"""Small wheels for tests, a folder of them as pip's only index, and a small program that stands in for a faulty pip."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import pytest

from edgespec.library.card import PackageFile
from edgespec.library.package import Pip

# Called as pip is. argv[1] says what to do before the wheel is copied, argv[2] where the wheels are.
_PROGRAM = """
import pathlib, shutil, sys, time
fault, wheels, *arguments = sys.argv[1:]
place = pathlib.Path(wheels)
calls = place / "calls"
n_calls = len(calls.read_text()) if calls.exists() else 0
calls.write_text("x" * (n_calls + 1))
if fault == "hang":
    from edgespec.library.lock import exclusive
    with exclusive(place / "alive", lambda: None):
        (place / "started").touch()
        time.sleep(600)
if fault == "broken once" and n_calls == 0:
    sys.exit("ERROR: Connection broken: IncompleteRead(3 bytes read)")
if fault not in ("", "broken once"):
    sys.exit(fault)
name, _, version = arguments[-1].partition("==")
wheel = place / f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
if not wheel.exists():
    sys.exit(f"ERROR: No matching distribution found for {arguments[-1]}")
shutil.copy(wheel, arguments[arguments.index("--dest") + 1])
"""


def write_wheel(folder: Path, package: str, member: str, content: bytes, version: str = "1.0") -> PackageFile:
    """A wheel that pip accepts, holding one file `<module>/<member>`."""
    folder.mkdir(parents=True, exist_ok=True)
    module = package.replace("-", "_")
    path = folder / f"{module}-{version}-py3-none-any.whl"
    about = f"{module}-{version}.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr(f"{module}/{member}", content)
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    return PackageFile(package, version, f"{module}/{member}", path.stat().st_size)


def only_index(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """The real pip of this machine now knows the wheels in `folder` and opens no network."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))


def toy_pip(folder: Path, fault: str = "", pauses: list[float] | None = None) -> Pip:
    waited: list[float] = [] if pauses is None else pauses
    return Pip((sys.executable, "-c", _PROGRAM, fault, str(folder)), waited.append)


def n_calls(folder: Path) -> int:
    calls = folder / "calls"
    return len(calls.read_text()) if calls.exists() else 0
