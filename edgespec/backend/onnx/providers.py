"""The execution providers of the installed ONNX Runtime: a process of its own says which, once per build of it.

Loading the library to ask it would cost the program that talks to a target 66 MB, and a step model runs elsewhere
anyway. Run as a module it prints them as JSON.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from edgespec.backend.onnx.session import EXTRA, runtime
from edgespec.errors import EngineFailure, MissingExtra
from edgespec.processes import HOME, child_command
from edgespec.records import Records

# The library alone loads within a second; one with drivers behind it from a slow disk takes many.
_SECONDS = 60.0
_ENDING = "ExecutionProvider"


def providers_command() -> Sequence[str]:
    return child_command("edgespec.backend.onnx.providers")


def installed_providers(records: Records, command: Callable[[], Sequence[str]] = providers_command) -> tuple[str, ...]:
    """Their names without the ending "ExecutionProvider", the library's favourite first. Raises MissingExtra without
    ONNX Runtime, EngineFailure where it cannot be asked.
    """
    build = _build()
    known = _names(records.get(build) or "")
    if known is None:
        known = _names(_said(command()))
        if known is None:
            raise _unheard("it answered nonsense")
        records.put(build, json.dumps(known))
    return known


def _build() -> str:
    """Which ONNX Runtime this is: another one in the same place has other times."""
    spec = find_spec("onnxruntime")
    if spec is None or spec.origin is None:
        raise MissingExtra("cannot run a step model", "ONNX Runtime is not installed", EXTRA)
    return f"providers|{spec.origin}|{Path(spec.origin).stat().st_mtime_ns}"


def _said(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            command, cwd=HOME, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _unheard(str(error)) from error
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise _unheard(lines[-1] if lines else f"it left with code {done.returncode}")
    return done.stdout.decode("utf-8", "replace")


def _unheard(why: str) -> EngineFailure:
    return EngineFailure("cannot ask ONNX Runtime for its providers", why, "install it anew, or '--draft-device cpu'")


def _names(text: str) -> tuple[str, ...] | None:
    """None for a text that is no list of names."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        return None
    return tuple(found)


def main() -> None:
    print(json.dumps([name.removesuffix(_ENDING) for name in runtime().get_available_providers()]))


if __name__ == "__main__":
    main()
