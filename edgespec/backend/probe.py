"""Proves engine settings in a child process before they are used, and remembers the verdict.

A verdict belongs to (model, library build, machine, settings). Knows how to start a child; not what the child does.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from edgespec.backend import machine
from edgespec.backend.settings import LlamaSettings, retreats
from edgespec.backend.trial import REFUSED
from edgespec.errors import EngineFailure
from edgespec.events import Notice
from edgespec.processes import HOME, child_command
from edgespec.records import Records

# The header, the vocabulary and the first tensors: enough to tell models apart without reading gigabytes.
FINGERPRINT_BYTES = 1 << 20
# A 7B model read from a slow disk and tried on two cores takes about a minute; beyond this the child is stuck.
TRIAL_SECONDS = 600.0

Command = Callable[[Path, LlamaSettings], Sequence[str]]


class Verdict(str, Enum):
    """REFUSED: an ordinary error came first, so nothing is proven; it is not remembered."""

    WORKS = "works"
    DIED = "died"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Outcome:
    """last_words: the last line that the child wrote on stderr, or how it ended."""

    verdict: Verdict
    last_words: str


def model_fingerprint(path: Path) -> str:
    """Tells model files apart: hash of the first MiB, and the size. A moved file keeps its fingerprint."""
    with path.open("rb") as stream:
        head = stream.read(FINGERPRINT_BYTES)
    return f"{hashlib.sha256(head).hexdigest()[:16]}-{path.stat().st_size}"


def settings_key(settings: LlamaSettings) -> str:
    """The settings as far as they decide which code runs. The length of the context does not, and on the CPU it cannot
    fail later than the check of memory; on a GPU it can.
    """
    if settings.n_gpu_layers == 0:
        settings = replace(settings, n_ctx=LlamaSettings().n_ctx)
    return settings.to_json()


def trial_command(path: Path, settings: LlamaSettings) -> list[str]:
    return child_command("edgespec.backend.trial", str(path.absolute()), settings.to_json())


def try_in_child(
    path: Path, settings: LlamaSettings, command: Command = trial_command, timeout_seconds: float = TRIAL_SECONDS
) -> Outcome:
    """Whether a child survives the settings. One that runs longer than the timeout is killed and has not."""
    try:
        done = subprocess.run(
            command(path, settings),
            env={**os.environ, "GGML_NO_BACKTRACE": "1"},  # else an abort starts a debugger
            cwd=HOME,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=timeout_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Outcome(Verdict.DIED, f"it did not end within {timeout_seconds:g} seconds")
    lines = done.stderr.decode("utf-8", "replace").split("\n")
    said = next((line.strip() for line in reversed(lines) if line.strip()), f"it left with code {done.returncode}")
    known = {0: Verdict.WORKS, REFUSED: Verdict.REFUSED}
    return Outcome(known.get(done.returncode, Verdict.DIED), said)


def proven_settings(
    path: Path,
    wanted: LlamaSettings,
    library: str,
    records: Records,
    notify: Callable[[Notice], None],
    command: Command = trial_command,
    timeout_seconds: float = TRIAL_SECONDS,
) -> LlamaSettings:
    """`wanted`, or the nearest safer settings that do not kill a process. Raises EngineFailure when none survives."""
    prefix = "|".join(["trial", model_fingerprint(path), library, machine.describe()])
    ladder = retreats(wanted)
    why: list[str] = []
    for settings, safer in zip(ladder, [*ladder[1:], None], strict=True):
        key = f"{prefix}|{settings_key(settings)}"
        outcome = _known(records, key) or _try(path, settings, key, records, command, timeout_seconds)
        if outcome.verdict is not Verdict.DIED:
            break
        why.append(outcome.last_words)
        if safer is not None:
            notify(_died(settings, safer))
    if records.damaged:
        notify(Notice("records-rebuilt", f"{records.path.name} was damaged and is made anew"))
    if len(why) == len(ladder):
        raise _none_survives(path, why[0])
    return settings


def _known(records: Records, key: str) -> Outcome | None:
    """What was found out earlier; None if nothing was, or if the record makes no sense."""
    known = records.get(key)
    if known not in (Verdict.WORKS.value, Verdict.DIED.value):
        return None
    return Outcome(Verdict(known), "as was found earlier")


def _try(
    path: Path, settings: LlamaSettings, key: str, records: Records, command: Command, timeout_seconds: float
) -> Outcome:
    outcome = try_in_child(path, settings, command, timeout_seconds)
    if outcome.verdict is not Verdict.REFUSED:
        records.put(key, outcome.verdict.value)
    return outcome


def _none_survives(path: Path, why: str) -> EngineFailure:
    return EngineFailure(
        f"cannot run {path.name}",
        f"this build of llama.cpp dies with every setting tried ({why})",
        "download the file again, or if other models die too, rebuild it as the README says under 'Building llama.cpp'",
    )


def _died(settings: LlamaSettings, safer: LlamaSettings) -> Notice:
    gpu = settings.n_gpu_layers != safer.n_gpu_layers
    part = "the GPU" if gpu else "its extra CPU buffers (weight repacking, AMX)"
    return Notice(
        "settings-died",
        f"this build of llama.cpp crashes with {part}, so edgespec goes on without; "
        "the README says how to build one that works",
    )
