"""Builds llama.cpp's own server from the sources inside the sdist of the installed llama-cpp-python.

    python tools/build_server.py

Prints the path of the program. The compiler flags are those that pyproject.toml builds llama-cpp-python with, so that
both run the same kernels. Sources, build and log lie in the cache folder; what is there is used again, and a build
that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

if __name__ == "__main__":  # started as a script: imports begin at the repository, not in this folder
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from edgespec.backend import machine
from edgespec.config import cache_dir
from edgespec.errors import BadInput, EngineFailure
from edgespec.records import write_atomically
from tools.asking import reported

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PACKAGE = "llama-cpp-python"
PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
# Only the server, without what would be fetched from elsewhere (its web page) or is not needed on loopback (TLS).
OPTIONS = (
    "CMAKE_BUILD_TYPE=Release",
    "GGML_NATIVE=ON",
    "LLAMA_BUILD_COMMON=ON",
    "LLAMA_BUILD_TOOLS=ON",
    "LLAMA_BUILD_SERVER=ON",
    "LLAMA_BUILD_TESTS=OFF",
    "LLAMA_BUILD_EXAMPLES=OFF",
    "LLAMA_BUILD_APP=OFF",
    "LLAMA_BUILD_UI=OFF",
    "LLAMA_USE_PREBUILT_UI=OFF",
    "LLAMA_OPENSSL=OFF",
    "LLAMA_TOOLS_INSTALL=OFF",
)
# "[17/212] Building ..." of ninja, "[ 42%] Building ..." of make.
_STEP = re.compile(r"\[\s*(\d+)(?:/(\d+)|%)\]")
N_TAIL = 5


@dataclass(frozen=True, slots=True)
class Places:
    """Where one version lies."""

    folder: Path

    @classmethod
    def of(cls, version: str) -> Places:
        return cls(cache_dir() / "llama-server" / version)

    @property
    def source(self) -> Path:
        return self.folder / "source"

    @property
    def build(self) -> Path:
        return self.folder / "build"

    @property
    def log(self) -> Path:
        return self.folder / "build.log"

    @property
    def stamp(self) -> Path:
        """Holds the flags of a finished build."""
        return self.folder / "built.txt"

    @property
    def configured(self) -> Path:
        """Holds the flags that CMake's cache was made with."""
        return self.folder / "configured.txt"

    @property
    def program(self) -> Path:
        name = "llama-server.exe" if os.name == "nt" else "llama-server"
        release = self.build / "bin" / "Release" / name  # where generators with several configurations put it
        return release if release.exists() else self.build / "bin" / name


def installed_version() -> str:
    return importlib.metadata.version(PACKAGE)


def built_program() -> Path | None:
    """The finished server of the installed version, if there is one that was made with today's flags."""
    places = Places.of(installed_version())
    is_finished = places.program.exists() and was_made_with(_text(places.stamp), build_variables(), extra_options())
    return places.program if is_finished else None


def build_variables(project: Path = PROJECT) -> dict[str, str]:
    """The environment that pyproject.toml builds llama-cpp-python in."""
    raw = tomllib.loads(project.read_text(encoding="utf-8"))
    return {name: str(value) for name, value in raw["tool"]["uv"]["extra-build-variables"][PACKAGE].items()}


def extra_options() -> list[str]:
    """What the user builds llama-cpp-python itself with, a GPU for example."""
    return shlex.split(os.environ.get("CMAKE_ARGS", ""))


def configure_command(cmake: list[str], source: Path, build: Path, ninja: bool, extra: Iterable[str]) -> list[str]:
    generator = ["-G", "Ninja"] if ninja else []
    return [*cmake, "-S", str(source), "-B", str(build), *generator, *_defined(), *extra]


def build_command(cmake: list[str], build: Path, jobs: int) -> list[str]:
    return [*cmake, "--build", str(build), "--config", "Release", "--target", "llama-server", "--parallel", str(jobs)]


def program_command(name: str) -> list[str]:
    """How to run `name`, which is on the path or comes as a Python package of the same name. Raises BadInput."""
    if found := shutil.which(name):
        return [found]
    if uv := shutil.which("uv"):
        return [uv, "tool", "run", name]
    raise BadInput(name, "it is not installed", f"install it, for example by 'pip install {name}'")


def pip_command() -> list[str]:
    """This interpreter's pip, or any."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    return program_command("pip")


def step(line: str) -> float | None:
    """The finished part, 0 to 1, that a line of the build names."""
    found = _STEP.match(line)
    if found is None:
        return None
    return int(found[1]) / max(1, int(found[2] or 100))


def fetch_source(version: str, places: Places) -> Path:
    """Download and unpack the sdist, unless it is there. Raises EngineFailure when the package client fails."""
    if places.source.exists():
        return places.source
    places.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=places.folder) as name:
        scratch = Path(name)
        click.echo(f"fetching the sources of {PACKAGE} {version}", err=True)
        wanted = ["--no-deps", "--no-binary", PACKAGE, "--dest", str(scratch), f"{PACKAGE}=={version}"]
        run_logged([*pip_command(), "download", *wanted], {}, places.log, "fetch")
        unpack(next(scratch.glob("*.tar.gz")), scratch / "unpacked")
        next((scratch / "unpacked").iterdir()).rename(places.source)  # whole or not at all
    return places.source


def unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as files:
        if hasattr(tarfile, "data_filter"):
            files.extractall(folder, filter="data")
        else:  # Python before 3.10.12
            files.extractall(folder)


def server_source(source: Path) -> Path:
    """llama.cpp's folder: `source` itself or the one inside llama-cpp-python's sources. Raises BadInput."""
    for folder in (source / "vendor" / "llama.cpp", source):
        if (folder / "tools" / "server" / "CMakeLists.txt").exists():
            return folder
    raise BadInput(f"{source}", "there is no llama.cpp server in it", f"give the unpacked sdist of {PACKAGE}")


def run_logged(command: list[str], variables: Mapping[str, str], log: Path, label: str) -> None:
    """Run with its output in `log` and a progress bar. Raises EngineFailure with its last lines when it fails."""
    tail: deque[str] = deque(maxlen=N_TAIL)
    environment = {**os.environ, **variables}
    with (
        log.open("a", encoding="utf-8") as file,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            encoding="utf-8",
            errors="replace",
        ) as process,
        click.progressbar(length=1000, label=label, file=sys.stderr) as bar,
    ):
        assert process.stdout is not None
        try:
            for line in process.stdout:
                file.write(line)
                tail.append(line.strip())
                part = step(line)
                bar.update(max(0, int(1000 * part) - bar.pos) if part is not None else 0)
        except BaseException:  # Ctrl-C above all: the next run goes on from what is built
            process.kill()
            raise
    if process.returncode != 0:
        raise EngineFailure(f"{label} of llama-server", " | ".join(filter(None, tail)), f"see {log}")


def flags_text(configure: list[str], variables: Mapping[str, str]) -> str:
    """What a build is made with; another text means that it must be made again."""
    return "\n".join([*_named(variables), shlex.join(configure)]) + "\n"


def was_made_with(flags: str, variables: Mapping[str, str], extra: list[str]) -> bool:
    """Whether a `flags_text` has these compiler flags and options, from whatever sources and by whatever cmake."""
    *named, command = flags.splitlines() or [""]
    wanted = [*_defined(), *extra]
    return named == _named(variables) and shlex.split(command)[-len(wanted) :] == wanted


def _named(variables: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in sorted(variables.items())]


def _defined() -> list[str]:
    return [f"-D{option}" for option in OPTIONS]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def build(version: str, source: Path | None, jobs: int) -> Path:
    """The path of the finished program. Raises BadInput and EngineFailure."""
    places, variables = Places.of(version), build_variables()
    tree = server_source(source or fetch_source(version, places)).resolve()
    cmake, ninja = program_command("cmake"), shutil.which("ninja") is not None
    configure = configure_command(cmake, tree, places.build, ninja, extra_options())
    flags = flags_text(configure, variables)
    if places.program.exists() and _text(places.stamp) == flags:
        return places.program
    places.folder.mkdir(parents=True, exist_ok=True)
    places.stamp.unlink(missing_ok=True)
    if _text(places.configured) != flags:  # CMake reads CFLAGS only while it has no cache
        (places.build / "CMakeCache.txt").unlink(missing_ok=True)
        write_atomically(places.configured, flags)
    run_logged(configure, variables, places.log, "configure")
    run_logged(build_command(cmake, places.build, jobs), variables, places.log, "build")
    write_atomically(places.stamp, flags)
    return places.program


@click.command()
@click.option(
    "--source",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help=f"unpacked sources of {PACKAGE}; fetched by name when not given",
)
@click.option("--jobs", type=click.IntRange(1), help="compilers at the same time; as many as cores when not given")
def main(source: Path | None, jobs: int | None) -> None:
    """Build llama-server with this project's compiler flags and print where it is."""
    with reported():
        click.echo(build(installed_version(), source, jobs or machine.usable_cores()))


if __name__ == "__main__":
    main()
