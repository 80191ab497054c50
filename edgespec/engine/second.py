"""The second model, which drafts: found, checked against the target, fitted into memory, and opened on demand.

Two kinds: a GGUF, on llama.cpp with a small context of its own, and a step model's folder, on ONNX Runtime. Loads
neither before a network is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from edgespec.backend import machine
from edgespec.backend.probe import model_fingerprint, proven_settings
from edgespec.config import cache_dir
from edgespec.errors import NotEnoughMemory, UnsupportedModel
from edgespec.events import Notice
from edgespec.library.drafts import DraftNeed, gguf_draft, plan_together, step_draft
from edgespec.library.header import GgufHeader, read_header
from edgespec.library.memory import CacheShape
from edgespec.library.pair import Pairing, pair, pair_step
from edgespec.library.vocabulary import read_vocabulary
from edgespec.records import Records
from edgespec.spec.step import StepModel
from edgespec.stepfile import FACTS, SUFFIX, folder_bytes, read_step

Notify = Callable[[Notice], None]

# Rows of one run: a chain's tokens that were accepted meanwhile go along with its next one.
_MAX_ROWS = 16


class SecondKind(str, Enum):
    GGUF = "gguf"
    STEP = "step model"


@dataclass(frozen=True, slots=True)
class Second:
    """A draft that fits. fingerprint: tells drafts apart in records. n_ctx: cells of its cache. make: opens a network
    of it on so many threads, in the thread that will use it; raises EdgeSpecErrors.
    """

    name: str
    path: Path
    kind: SecondKind
    fingerprint: str
    n_ctx: int
    make: Callable[[int], StepModel]


def is_step_folder(reference: str) -> bool:
    """Whether this names the folder of a step model, there or not."""
    path = Path(reference).expanduser()
    return path.suffix == SUFFIX or (path / FACTS).is_file()


def fitting_step(path: Path, target: GgufHeader, n_ctx: int, notify: Notify) -> Second:
    """A step model's folder as a draft of `target`. Raises the folder's errors, PairMismatch and NotEnoughMemory."""
    folder = read_step(path)
    file = folder.file
    _tell(pair_step(read_vocabulary(target.path), folder.name, file.n_vocab, file.token_hash), notify)
    cells = fitted(step_draft(folder.name, file, folder_bytes(path), n_ctx), notify).n_ctx
    layers = ",".join(map(str, file.layers))
    fingerprint = f"{file.source_fingerprint}|{layers}|{folder.graph.stat().st_size}"

    def make(n_threads: int) -> StepModel:
        from edgespec.backend.onnx import OnnxSettings, OnnxStep

        return OnnxStep(folder, OnnxSettings(n_threads, n_ctx=cells))

    return Second(folder.name, path, SecondKind.STEP, fingerprint, cells, make)


def fitting_gguf(path: Path, name: str, target: GgufHeader, n_ctx: int, library: str, notify: Notify) -> Second:
    """A GGUF as a draft of `target`. Raises the file's errors, PairMismatch, NotEnoughMemory, and EngineFailure if it
    cannot be run.
    """
    header = read_header(path)
    if header.kind != "model":
        raise UnsupportedModel(f"{path}", f"it is of the kind '{header.kind}'", "give the GGUF of a smaller model")
    _tell(pair(read_vocabulary(target.path), read_vocabulary(path)), notify)

    from edgespec.backend.llama.step import draft_settings, open_step

    wished = min(n_ctx, header.context_length or n_ctx)
    cells = fitted(gguf_draft(header, CacheShape(_MAX_ROWS), wished, name), notify).n_ctx
    usual = draft_settings(cells, 1, max_rows=_MAX_ROWS)
    proven = proven_settings(path, usual, library, Records(cache_dir() / "trials.json"), notify)

    def make(n_threads: int) -> StepModel:
        return open_step(path, replace(proven, n_threads=n_threads), n_vocab=target.n_vocab, name=name)

    return Second(name, path, SecondKind.GGUF, model_fingerprint(path), cells, make)


def fitted(need: DraftNeed, notify: Notify) -> DraftNeed:
    """The draft with the context that the memory left by the target allows. Raises NotEnoughMemory for none."""
    together = plan_together(0, [need], machine.available_memory_bytes())
    if together.draft is None:
        last = together.steps[-1].notice().message.rpartition(": ")[0]
        raise NotEnoughMemory(f"no memory for {need.name}", last, "give a smaller draft, or '--draft-model none'")
    for step in together.steps:
        notify(step.notice())
    return together.draft


def _tell(fit: Pairing, notify: Notify) -> None:
    for note in fit.notes:
        notify(note)
