"""The command up to where the window begins."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import edgespec
from edgespec.cli import desk as module
from edgespec.engine import EngineOptions, GenerateOptions
from tests.cli.conftest import Invoke

ROOT = Path(edgespec.__file__).parent.parent
DEADLINE_SECONDS = 120.0


def test_what_is_not_installed_is_named(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PACKAGE", "no_such_package")
    result = invoke("desk")
    assert result.exit_code == 14
    assert "no_such_package" in result.stderr
    assert "pip install 'pyside6-essentials<6.12'" in result.stderr


def test_options_reach_the_window(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str | None, EngineOptions, GenerateOptions | None, bool]] = []

    def start(model: str | None, engine: EngineOptions, answers: GenerateOptions | None, offline: bool) -> int:
        seen.append((model, engine, answers, offline))
        return 3

    monkeypatch.setattr(module, "app", lambda: start)
    result = invoke("desk", "toy.gguf", "--temperature", "0", "--seed", "5", "--draft", "off")
    assert result.exit_code == 3
    assert result.stdout == ""
    ((model, engine, answers, offline),) = seen
    assert (model, engine, offline) == ("toy.gguf", EngineOptions(ctx_size=512, threads=1), True)
    assert answers is not None
    assert (answers.sampling.temperature, answers.sampling.seed, answers.draft.value) == (0.0, 5, "off")


def test_values_that_cannot_be_open_no_window(invoke: Invoke) -> None:
    assert invoke("desk", "--draft", "lokup").exit_code == 2
    assert invoke("desk", "--ctx-size", "1").exit_code == 13


def test_in_a_source_tree_the_app_lies_beside_the_package() -> None:
    assert module.home() == module.CHECKOUT
    assert (ROOT / "apps" / "desk" / "start.py").is_file()


def test_the_wheel_brings_the_app(tmp_path: Path) -> None:
    """Built as for release, unpacked somewhere else, and started far enough to find its parts."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=DEADLINE_SECONDS)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        wheel.extractall(tmp_path / "site")
    find = "from edgespec.cli.desk import app, home; print(home(), app().__module__)"
    before = os.environ.get("PYTHONPATH", "")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), before])}
    done = subprocess.run(
        [sys.executable, "-c", find], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [module.INSTALLED, f"{module.INSTALLED}.start"]
