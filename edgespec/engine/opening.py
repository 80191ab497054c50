"""From a GGUF to a running target: header checked, memory checked, settings proven, model loaded. Heavy imports start
here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgespec.backend import machine
from edgespec.backend.probe import model_fingerprint
from edgespec.backend.settings import LlamaSettings
from edgespec.backend.widths import N_TEXT, Classes, best_class, find_classes
from edgespec.config import cache_dir
from edgespec.engine.choosing import chosen_settings, known_tuning, tuned_as
from edgespec.engine.options import EngineOptions
from edgespec.errors import NotEnoughMemory, UnsupportedModel
from edgespec.events import Notice
from edgespec.library.header import GgufHeader, read_header
from edgespec.records import Records
from edgespec.spec.ports import Target
from edgespec.text.vocab import Vocabulary
from edgespec.tune.store import tuning_records
from edgespec.tune.tuning import Tuning

if TYPE_CHECKING:
    from edgespec.backend.llama.target import LlamaTarget
    from edgespec.backend.llama.vocab import LlamaVocabulary

Notify = Callable[[Notice], None]
Progress = Callable[[float], bool]

# The class that needs no measuring: exact answers are then decoded without drafts.
PLAIN_ONLY: Classes = ((1,),)
# Read by the width probe, over and over. Any ordinary prose will do; it only has to be the same every time.
PROBE_TEXT = (
    "The harbour was quiet before dawn. Two fishermen mended a net by lamplight while the tide turned, and the older "
    "one counted: 17 floats, 3 hooks, 240 metres of line. "
    "Later, def count(items): return sum(1 for _ in items) would do it. "
)


class Opened:
    """A loaded model with what the engine needs of it. The target is handed to the worker's thread."""

    def __init__(
        self,
        header: GgufHeader,
        target: LlamaTarget,
        vocab: LlamaVocabulary,
        library: str,
        tuning: Tuning | None = None,
    ) -> None:
        self.tuning = tuning
        self.tuned = tuned_as(target.settings, tuning)
        self.header = header
        self.target = target
        self.vocab = vocab
        self._library = library

    @property
    def settings(self) -> LlamaSettings:
        return self.target.settings

    def width_class(self, notify: Notify) -> tuple[int, ...]:
        """The widths an exact request stays inside; probed once per model, build, machine and settings.

        Runs in the worker's thread. Raises what the target raises when it is interrupted.
        """
        if not self.target.capabilities.width_classes:
            self.target.set_width_classes(self._classes(notify))
        return best_class(self.target.capabilities.width_classes)

    def _classes(self, notify: Notify) -> Classes:
        # In a small window cache rejected drafts leave traces in the last bits, so there exact answers are plain ones.
        if not self.target.capabilities.can_rollback or self.target.windowed:
            return PLAIN_ONLY
        records = Records(cache_dir() / "widths.json")
        # Kernels are chosen by the shape of a pass, so a longer context changes nothing; a shorter one is probed less.
        n_ctx = min(N_TEXT, self.target.settings.n_ctx)
        settings = replace(self.target.settings, n_ctx=n_ctx).to_json()
        key = "|".join([model_fingerprint(self.header.path), self._library, machine.describe(), settings])
        known = decode_classes(records.get(key) or "")
        if records.damaged:
            notify(Notice("records-rebuilt", f"{records.path.name} was damaged and is made anew"))
        if known:
            return known
        classes = self._probe(notify)
        if classes is None:
            return PLAIN_ONLY
        records.put(key, encode_classes(classes))
        return classes

    def _probe(self, notify: Notify) -> Classes | None:
        """In a cache of its own, where no other text shifts the cells; None when there is no memory for one."""
        notify(
            Notice(
                "probing-widths", "first exact answer with this model: measuring which batch widths agree bit for bit"
            )
        )
        try:
            probed = self.target.sibling(min(N_TEXT, self.target.capabilities.n_ctx))
        except NotEnoughMemory as error:
            notify(Notice("no-probe", f"exact answers are decoded plainly: {error.why}"))
            return None
        with closing(probed):
            return find_classes(probed, _probe_tokens(probed, self.vocab), time.perf_counter)


def open_model(path: Path, options: EngineOptions, notify: Notify, progress: Progress | None = None) -> Opened:
    """Load `path`. Raises the library's and the backend's EdgeSpecErrors; nothing stays loaded after one."""
    header = read_header(path)
    require_language_model(header)

    from edgespec.backend.llama import native
    from edgespec.backend.llama.target import LlamaTarget
    from edgespec.backend.llama.vocab import LlamaVocabulary

    library = native.library_fingerprint()
    tuning = known_tuning(path, library, options, tuning_records())
    settings = chosen_settings(header, options, library, native.supports_gpu(), tuning, notify)
    model = native.load_model(header.path, settings, progress)
    target = LlamaTarget(model, settings)
    if not target.capabilities.can_rollback:
        notify(no_rollback(header.architecture))
    return Opened(header, target, LlamaVocabulary(model), library, tuning)


def require_language_model(header: GgufHeader) -> None:
    """Raises UnsupportedModel for the other things that GGUF files hold."""
    if header.kind != "model":
        raise UnsupportedModel(
            f"{header.path}", f"it is no language model but of the kind '{header.kind}'", "give the model's own file"
        )


def no_rollback(architecture: str) -> Notice:
    return Notice(
        "no-rollback",
        f"{architecture} keeps a running state that cannot be rolled back, so nothing is drafted: plain decoding",
    )


def encode_classes(classes: Classes) -> str:
    return ";".join(",".join(map(str, one)) for one in classes)


def decode_classes(text: str) -> Classes:
    """What `encode_classes` wrote; empty when the text is anything else."""
    try:
        classes = tuple(tuple(int(width) for width in one.split(",")) for one in text.split(";"))
    except ValueError:
        return ()
    return classes if all(width >= 1 for one in classes for width in one) else ()


def _probe_tokens(target: Target, vocab: Vocabulary) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    text = vocab.tokenize(PROBE_TEXT)
    return np.array((text * (N_TEXT // len(text) + 1))[:N_TEXT], np.int32) % target.capabilities.n_vocab
