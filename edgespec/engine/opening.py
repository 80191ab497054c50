"""From a GGUF to a running target: header checked, memory checked, settings proven, model loaded. Heavy imports start
here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgespec.backend import machine
from edgespec.backend.probe import model_fingerprint, proven_settings
from edgespec.backend.settings import LlamaSettings
from edgespec.backend.widths import CONTEXTS, MAX_WIDTH, N_ROWS, Classes, best_class, find_classes
from edgespec.config import cache_dir
from edgespec.engine.options import EngineOptions
from edgespec.events import Notice
from edgespec.library.header import GgufHeader, read_header
from edgespec.library.memory import check_memory
from edgespec.records import Records
from edgespec.spec.ports import Target
from edgespec.text.vocab import Vocabulary

if TYPE_CHECKING:
    from edgespec.backend.llama.target import LlamaTarget
    from edgespec.backend.llama.vocab import LlamaVocabulary

Notify = Callable[[Notice], None]
Progress = Callable[[float], bool]

# Read by the width probe, over and over. Any ordinary prose will do; it only has to be the same every time.
PROBE_TEXT = (
    "The harbour was quiet before dawn. Two fishermen mended a net by lamplight while the tide turned, and the older "
    "one counted: 17 floats, 3 hooks, 240 metres of line. "
    "Later, def count(items): return sum(1 for _ in items) would do it. "
)


class Opened:
    """A loaded model with what the engine needs of it. The target is handed to the worker's thread."""

    def __init__(self, header: GgufHeader, target: LlamaTarget, vocab: LlamaVocabulary, library: str) -> None:
        self.header = header
        self.target = target
        self.vocab = vocab
        self._library = library

    def width_class(self, notify: Notify) -> tuple[int, ...]:
        """The widths an exact request stays inside; probed once per model, build, machine and settings.

        Runs in the worker's thread.
        """
        if not self.target.capabilities.can_rollback:
            return (1,)
        if not self.target.capabilities.width_classes:
            self.target.set_width_classes(self._classes(notify))
        return best_class(self.target.capabilities.width_classes)

    def _classes(self, notify: Notify) -> Classes:
        records = Records(cache_dir() / "widths.json")
        settings = self.target.settings.to_json()
        key = "|".join([model_fingerprint(self.header.path), self._library, machine.describe(), settings])
        known = records.get(key)
        if known is not None:
            return decode_classes(known)
        notify(
            Notice(
                "probing-widths", "first exact answer with this model: measuring which batch widths agree bit for bit"
            )
        )
        classes = find_classes(self.target, _probe_tokens(self.target, self.vocab))
        records.put(key, encode_classes(classes))
        return classes


def open_model(path: Path, options: EngineOptions, notify: Notify, progress: Progress | None = None) -> Opened:
    """Load `path`. Raises the library's and the backend's EdgeSpecErrors; nothing stays loaded after one."""
    header = read_header(path)
    wanted = wanted_settings(header, options)
    check_memory(header, wanted.n_ctx, wanted.max_rows, machine.available_memory_bytes())

    from edgespec.backend.llama import native
    from edgespec.backend.llama.target import LlamaTarget
    from edgespec.backend.llama.vocab import LlamaVocabulary

    if options.gpu_layers is None and native.supports_gpu():
        wanted = wanted.on_gpu()
    library = native.library_fingerprint()
    records = Records(cache_dir() / "trials.json")
    settings = proven_settings(header.path, wanted, library, records, notify)
    model = native.load_model(header.path, settings, progress)
    target = LlamaTarget(model, settings)
    if not target.capabilities.can_rollback:
        notify(no_rollback(header.architecture))
    return Opened(header, target, LlamaVocabulary(model), library)


def wanted_settings(header: GgufHeader, options: EngineOptions) -> LlamaSettings:
    """Before anything is measured: the machine's cores, the model's context limit, full caches for sliding windows."""
    n_ctx = min(options.ctx_size, header.context_length or options.ctx_size)
    threads = options.threads or machine.usable_cores()
    return LlamaSettings(n_ctx=n_ctx, n_threads=threads, n_gpu_layers=options.gpu_layers or 0)


def no_rollback(architecture: str) -> Notice:
    return Notice(
        "no-rollback",
        f"{architecture} keeps a running state that cannot be rolled back, so nothing is drafted: plain decoding",
    )


def encode_classes(classes: Classes) -> str:
    return ";".join(",".join(map(str, one)) for one in classes)


def decode_classes(text: str) -> Classes:
    return tuple(tuple(int(width) for width in one.split(",")) for one in text.split(";"))


def _probe_tokens(target: Target, vocab: Vocabulary) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    needed = max(CONTEXTS) + N_ROWS + MAX_WIDTH + 1
    text = vocab.tokenize(PROBE_TEXT)
    return np.array((text * (needed // len(text) + 1))[:needed], np.int32) % target.capabilities.n_vocab
