"""Children are started from a Python, and from a program that is its own only executable."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from edgespec import processes
from edgespec.errors import EngineFailure
from edgespec.processes import DECLARED, HOME, child_command, run_child
from tools.make_toy_model import write_toy_model

# As an application frozen into one file: started again, it can do nothing but run its own main.
PROGRAM = """
import os, sys
sys.frozen, sys.executable = True, os.environ["APPLICATION"]
{first}
with open(os.environ["STARTS"], "a") as starts:
    print("application", file=starts)
from edgespec import EdgeSpecError, Engine, EngineOptions, GenerateOptions
try:
    with Engine.open(sys.argv[1], EngineOptions(ctx_size=256, threads=1)) as engine:
        print(len(engine.complete("hello", GenerateOptions(max_tokens=3)).completion().token_ids))
except EdgeSpecError as error:
    print(error)
"""


def frozen(folder: Path, first: str) -> tuple[str, int]:
    """What the application says of an answer with a model that it has to try in a child, and how often it started."""
    (folder / "main.py").write_text(PROGRAM.format(first=first), encoding="utf-8")
    application, starts = folder / "application", folder / "starts"
    application.write_text(f'#!/bin/sh\nexec {sys.executable} {folder / "main.py"} "$@"\n', encoding="utf-8")
    application.chmod(application.stat().st_mode | stat.S_IXUSR)
    variables = {
        **{name: value for name, value in os.environ.items() if name != DECLARED},
        "APPLICATION": f"{application}", "STARTS": f"{starts}", "EDGESPEC_HOME": f"{folder / 'home'}",
        "EDGESPEC_OFFLINE": "1", "PYTHONPATH": f"{HOME}",
    }  # fmt: skip
    model = write_toy_model(folder / "toy.gguf")
    done = subprocess.run([f"{application}", f"{model}"], env=variables, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), starts.read_text(encoding="utf-8").count("application")


def test_a_frozen_program_that_says_so_starts_children_and_itself_once(tmp_path: Path) -> None:
    assert frozen(tmp_path, "import edgespec; edgespec.run_child()") == ("3", 1)


def test_one_that_does_not_is_told_what_to_do_and_starts_once(tmp_path: Path) -> None:
    said, n_starts = frozen(tmp_path, "")
    assert said.startswith("cannot start a process beside this program")
    assert "call edgespec.run_child() first in its main module" in said
    assert n_starts == 1


def test_children_find_edgespec_where_this_process_found_it() -> None:
    assert (HOME / "edgespec" / "processes.py").samefile(processes.__file__)


def test_a_python_runs_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    assert child_command("edgespec.backend.trial", "a", "b") == [
        sys.executable,
        "-m",
        "edgespec.backend.trial",
        "a",
        "b",
    ]
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.delenv(DECLARED, raising=False)
    with pytest.raises(EngineFailure, match="it is frozen"):
        child_command("edgespec.backend.trial")


@pytest.mark.parametrize("arguments", [[], ["model.gguf"], ["--edgespec-child"], ["--edgespec-child", "os"]])
def test_an_ordinary_start_goes_on(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DECLARED, "")
    monkeypatch.setattr(sys, "argv", ["program", *arguments])
    run_child()
    assert sys.argv == ["program", *arguments]
    assert os.environ[DECLARED] == "1"
