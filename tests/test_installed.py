"""The package as a project gets it: built as a wheel, put into an environment of its own, run from an empty folder.

The dependencies are those of this environment, and no network is used: what is tried is what the wheel itself holds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import edgespec
from tests.test_docs_examples import FENCE, page
from tests.toy_start import ROOT, environment, write_start


@dataclass(frozen=True)
class Project:
    """python: of its environment. work: an empty folder but for a toy model."""

    wheel: Path
    python: Path
    work: Path
    variables: dict[str, str]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.python), *arguments]
        return subprocess.run(command, cwd=self.work, env=self.variables, capture_output=True, encoding="utf-8")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    root = tmp_path_factory.mktemp("project")
    variables = {name: value for name, value in environment(root).items() if name != "PYTHONPATH"}
    checked([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(root / "dist")], dict(os.environ))
    (wheel,) = (root / "dist").glob("*.whl")
    builder = venv.EnvBuilder(with_pip=True)
    builder.create(root / "env")
    python = Path(builder.ensure_directories(root / "env").env_exe)
    checked([str(python), "-m", "pip", "install", "--no-index", "--no-deps", "--quiet", str(wheel)], variables)
    here = sysconfig.get_path("purelib", vars={"base": str(root / "env")})
    # Added behind the environment's own packages; what this folder says of edgespec itself is not followed from there.
    (Path(here) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    return Project(wheel, python, write_start(root), variables)


def checked(command: list[str], variables: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def test_the_wheel_holds_what_runs_and_nothing_else(project: Project) -> None:
    names = zipfile.ZipFile(project.wheel).namelist()
    assert {"edgespec/py.typed", "edgespec/models/smollm2-135m.toml"} <= set(names)
    assert {name.split("/")[0] for name in names} == {"edgespec", f"edgespec-{edgespec.__version__}.dist-info"}
    assert not [name for name in names if name.endswith((".pyc", ".gguf"))]


def test_the_ten_lines_of_the_readme_stream_a_reply(project: Project) -> None:
    lines = FENCE.findall(page("README.md"))[0][1]
    assert len(lines.splitlines()) == 10
    (project.work / "reply.py").write_text(lines, "utf-8")
    done = project.run("reply.py")
    assert (done.returncode, done.stderr) == (0, "")
    said, _, rate = done.stdout.rstrip("\n").rpartition("\n")
    assert len(said) > 10
    assert rate.endswith(" tokens per second")


def test_it_is_the_installed_package_that_ran(project: Project) -> None:
    done = project.run("-c", "import edgespec, edgespec.server; print(edgespec.__file__, edgespec.__version__)")
    assert done.returncode == 0, done.stderr
    path, version = done.stdout.split()
    assert Path(path).is_relative_to(project.python.parents[1].resolve())
    assert version == edgespec.__version__


def test_the_command_is_installed_with_it(project: Project) -> None:
    done = project.run("-m", "edgespec", "run", "Hello", "--max-tokens", "5", "--threads", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert list(project.python.parent.glob("edgespec*"))
