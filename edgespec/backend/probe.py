"""Proves engine settings in a child process before they are used, and remembers the verdict.

A verdict belongs to (model, library build, machine, settings). Knows how to start a child; not what the child does.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path

from edgespec.backend import machine
from edgespec.backend.settings import LlamaSettings, retreats
from edgespec.errors import EngineFailure
from edgespec.events import Notice
from edgespec.records import Records

# The header, the vocabulary and the first tensors: enough to tell models apart without reading gigabytes.
FINGERPRINT_BYTES = 1 << 20
# A 7B model read from a slow disk and tried on two cores takes about a minute; beyond this the child is stuck.
TRIAL_SECONDS = 600.0

Command = Callable[[Path, LlamaSettings], Sequence[str]]


class Verdict(str, Enum):
    WORKS = "works"
    DIED = "died"


def model_fingerprint(path: Path) -> str:
    """Tells model files apart: hash of the first MiB, and the size. A moved file keeps its fingerprint."""
    with path.open("rb") as stream:
        head = stream.read(FINGERPRINT_BYTES)
    return f"{hashlib.sha256(head).hexdigest()[:16]}-{path.stat().st_size}"


def trial_command(path: Path, settings: LlamaSettings) -> list[str]:
    return [sys.executable, "-m", "edgespec.backend.trial", str(path), settings.to_json()]


def try_in_child(path: Path, settings: LlamaSettings, command: Command = trial_command) -> Verdict:
    """Whether a child survives the settings. A child that ends with an ordinary error has survived them."""
    environment = {**os.environ, "GGML_NO_BACKTRACE": "1"}  # else an abort starts a debugger
    try:
        done = subprocess.run(
            command(path, settings),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TRIAL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Verdict.DIED
    # Killed by a signal: negative here, 128 and more through a shell, an NTSTATUS on Windows. Python's errors are
    # small.
    return Verdict.DIED if done.returncode < 0 or done.returncode >= 128 else Verdict.WORKS


def proven_settings(
    path: Path,
    wanted: LlamaSettings,
    library: str,
    records: Records,
    notify: Callable[[Notice], None],
    command: Command = trial_command,
) -> LlamaSettings:
    """`wanted`, or the nearest safer settings that do not kill a process. Raises EngineFailure when none survives."""
    model = model_fingerprint(path)
    for settings in retreats(wanted):
        key = "|".join(["trial", model, library, machine.describe(), settings.to_json()])
        known = records.get(key)
        verdict = Verdict(known) if known in set(Verdict) else try_in_child(path, settings, command)
        if known is None:
            records.put(key, verdict.value)
        if verdict is Verdict.WORKS:
            return settings
        notify(_died(settings))
    raise EngineFailure(
        f"cannot run {path.name}",
        "this build of llama.cpp dies with every setting tried",
        "rebuild it with the variables in the README, under 'Building llama.cpp'",
    )


def _died(settings: LlamaSettings) -> Notice:
    part = "the GPU" if settings.n_gpu_layers else "its extra CPU buffers (weight repacking, AMX)"
    return Notice(
        "settings-died",
        f"this build of llama.cpp crashes with {part}, so edgespec goes on without; "
        "the README says how to build one that works",
    )
