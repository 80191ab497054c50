"""The second model, which drafts: found, checked against the target, fitted into memory, and opened on demand.

Two kinds: a GGUF, on llama.cpp with a small context of its own, and a step model's folder, on ONNX Runtime. What runs
in native code that the target does not use anyway has a process of its own. Loads neither before a network is asked
for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from importlib.util import find_spec
from pathlib import Path

from edgespec.backend.probe import model_fingerprint, proven_settings
from edgespec.backend.remote import Patience, RemoteStep
from edgespec.backend.remote_spec import llama_spec, onnx_spec
from edgespec.backend.settings import LlamaSettings
from edgespec.config import cache_dir
from edgespec.engine.pair.devices import CPU, GPU, free_bytes, on_device
from edgespec.errors import MissingExtra, NotEnoughMemory, UnsupportedModel
from edgespec.events import Notice
from edgespec.library.drafts import DRAFT_ROWS, DraftNeed, gguf_draft, in_child, plan_together, step_draft
from edgespec.library.header import GgufHeader, read_header
from edgespec.library.memory import CacheShape
from edgespec.library.pair import Pairing, pair, pair_step
from edgespec.library.vocabulary import read_vocabulary
from edgespec.records import Records
from edgespec.spec.step import StepModel
from edgespec.stepfile import FACTS, SUFFIX, folder_bytes, read_step
from edgespec.tune.pair import StepTimes

Notify = Callable[[Notice], None]

# A call that takes so many times what was measured is stuck: other programs on the same cores make steps ten times as
# long, and late texts some times. No less than the seconds, since a machine that swaps or wakes up is as slow as that.
_STUCK = 20.0
_LEAST_SECONDS = 2.0


class SecondKind(str, Enum):
    GGUF = "gguf"
    STEP = "step model"


class Home(str, Enum):
    """Where a network's native code runs."""

    HERE = "in this process"
    CHILD = "in a process of its own"


@dataclass(frozen=True, slots=True)
class Second:
    """A draft that fits. fingerprint: tells drafts apart in records. n_ctx: cells of its cache. make: opens a network
    of it on so many threads, in the thread that will use it; raises EdgeSpecErrors. home: the process that runs in.
    device: what it runs on, as `Devices` names it.
    """

    name: str
    path: Path
    kind: SecondKind
    fingerprint: str
    n_ctx: int
    make: Callable[[int], StepModel]
    home: Home
    device: str = CPU


def gguf_home(settings: LlamaSettings) -> Home:
    """On the CPU a GGUF runs in the target's own library, where a hang would not spare the target either; and two teams
    of its threads, in two processes, take the cores from each other. A GPU's driver is another matter.
    """
    return Home.CHILD if settings.n_gpu_layers else Home.HERE


def patience(times: StepTimes) -> Patience:
    """When a call of a draft that was measured so counts as stuck."""
    slowest = max(seconds for _, seconds in (*times.step_seconds, *times.row_seconds))
    return Patience(max(_LEAST_SECONDS, _STUCK * slowest), _STUCK * times.read_seconds)


def is_step_folder(reference: str) -> bool:
    """Whether this names the folder of a step model, there or not."""
    path = Path(reference).expanduser()
    return path.suffix == SUFFIX or (path / FACTS).is_file()


def fitting_step(path: Path, target: GgufHeader, n_ctx: int, notify: Notify, device: str = CPU) -> Second:
    """A step model's folder as a draft of `target`. Raises the folder's errors, PairMismatch and NotEnoughMemory."""
    folder = read_step(path)
    file = folder.file
    _tell(pair_step(read_vocabulary(target.path), folder.name, file.n_vocab, file.token_hash), notify)
    cells = fitted(in_child(step_draft(folder.name, file, folder_bytes(path), n_ctx)), notify).n_ctx
    layers = ",".join(map(str, file.layers))
    fingerprint = on_device(f"{file.source_fingerprint}|{layers}|{folder.graph.stat().st_size}", device)
    name = on_device(folder.name, device)

    def make(n_threads: int) -> StepModel:
        from edgespec.backend.onnx import OnnxSettings
        from edgespec.backend.onnx.session import EXTRA

        if find_spec("onnxruntime") is None:  # said here, it is an error that every command knows
            raise MissingExtra("cannot run a step model", "ONNX Runtime is not installed", EXTRA)
        return RemoteStep(onnx_spec(path, OnnxSettings(n_threads, device, cells)), name)

    return Second(name, path, SecondKind.STEP, fingerprint, cells, make, Home.CHILD, device)


def fitting_gguf(
    path: Path, name: str, target: GgufHeader, n_ctx: int, library: str, notify: Notify, device: str = CPU
) -> Second:
    """A GGUF as a draft of `target`. Raises the file's errors, PairMismatch, NotEnoughMemory, and EngineFailure if it
    cannot be run.
    """
    header = read_header(path)
    if header.kind != "model":
        raise UnsupportedModel(f"{path}", f"it is of the kind '{header.kind}'", "give the GGUF of a smaller model")
    _tell(pair(read_vocabulary(target.path), read_vocabulary(path)), notify)

    from edgespec.backend.llama.step import draft_settings, open_step

    wished = min(n_ctx, header.context_length or n_ctx)
    usual = draft_settings(wished, 1, -1 if device == GPU else 0, DRAFT_ROWS)
    home = gguf_home(usual)
    need = gguf_draft(header, CacheShape(DRAFT_ROWS), wished, name)
    cells = fitted(in_child(need) if home is Home.CHILD else need, notify, device).n_ctx
    trials = Records(cache_dir() / "trials.json")
    proven = proven_settings(path, replace(usual, n_ctx=cells), library, trials, notify)

    def make(n_threads: int) -> StepModel:
        settings = replace(proven, n_threads=n_threads)
        if home is Home.CHILD:
            return RemoteStep(llama_spec(path, settings, target.n_vocab, name), name)
        return open_step(path, settings, n_vocab=target.n_vocab, name=name)

    fingerprint = on_device(model_fingerprint(path), device)
    return Second(name, path, SecondKind.GGUF, fingerprint, cells, make, home, device)


def fitted(need: DraftNeed, notify: Notify, device: str = CPU) -> DraftNeed:
    """The draft with the context that the memory left by the target allows. Raises NotEnoughMemory for none."""
    together = plan_together(0, [need], free_bytes(device))
    if together.draft is None:
        last = together.steps[-1].notice().message.rpartition(": ")[0]
        raise NotEnoughMemory(f"no memory for {need.name}", last, "give a smaller draft, or '--draft-model none'")
    for step in together.steps:
        notify(step.notice())
    return together.draft


def _tell(fit: Pairing, notify: Notify) -> None:
    for note in fit.notes:
        notify(note)
