"""Where and with what it was measured: one line, without which no figure means anything."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import psutil

import edgespec
from edgespec.backend import machine
from edgespec.backend.settings import LlamaSettings


@dataclass(frozen=True, slots=True)
class Place:
    """load: runnable processes on average over the last minute, before the measurement began."""

    machine: str
    load: float
    library: str
    model: str
    settings: LlamaSettings

    def line(self) -> str:
        settings = self.settings
        ways = [
            f"{settings.n_threads} threads" if settings.n_threads > 1 else "1 thread",
            f"flash attention {settings.flash_attention.value}",
            f"extra buffers {'on' if settings.extra_buffers else 'off'}",
            f"KV {settings.kv_type.value}",
            f"{settings.n_ctx} tokens of context",
            *([f"{settings.n_gpu_layers} layers on the GPU"] if settings.n_gpu_layers else []),
        ]
        # The whole fingerprint is for programs; its head is the version.
        version, _, build = self.library.partition("|")
        stamp = hashlib.sha256(build.encode()).hexdigest()[:8]
        library = f"library {version} build {stamp}"
        return f"{self.machine}, load {self.load:.1f} · {self.model} · {', '.join(ways)} · {library}"


def place(model: str, library: str, settings: LlamaSettings, load: float) -> Place:
    return Place(machine.describe(), load, library, model, settings)


def code_fingerprint() -> str:
    """Which edgespec this is: its version, and a digest of all its code, which may change without it."""
    folder, code = Path(edgespec.__file__).parent, hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        code.update(f"{path.relative_to(folder).as_posix()}\n".encode())
        code.update(path.read_bytes())
    return f"{edgespec.__version__}|{code.hexdigest()[:16]}"


def load_now() -> float:
    """Runnable processes, on average over the last minute."""
    return float(psutil.getloadavg()[0])
