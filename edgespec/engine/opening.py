"""From a GGUF to a running target: header checked, memory checked, settings proven, model loaded. Heavy imports start
here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from edgespec.backend.settings import LlamaSettings
from edgespec.engine.choosing import chosen_settings, forced_by, known_tuning, tuned_as
from edgespec.engine.options import EngineOptions
from edgespec.engine.samebits import SameBits
from edgespec.errors import UnsupportedModel
from edgespec.events import Notice
from edgespec.library.header import GgufHeader, read_header
from edgespec.tune.store import Forced, tuning_records
from edgespec.tune.tuning import Tuning

if TYPE_CHECKING:
    from edgespec.backend.llama.target import LlamaTarget
    from edgespec.backend.llama.vocab import LlamaVocabulary

Notify = Callable[[Notice], None]
Progress = Callable[[float], bool]


class Opened:
    """A loaded model with what the engine needs of it. The target is handed to the worker's thread."""

    def __init__(
        self,
        header: GgufHeader,
        target: LlamaTarget,
        vocab: LlamaVocabulary,
        library: str,
        forced: Forced,
        tuning: Tuning | None = None,
    ) -> None:
        self.tuning = tuning
        self.tuned = tuned_as(target.settings, tuning)
        self.header = header
        self.target = target
        self.vocab = vocab
        self.library = library
        self._forced = forced
        self._bits = SameBits(header.path, target, vocab, library, tuning if self.tuned else None)

    @property
    def settings(self) -> LlamaSettings:
        return self.target.settings

    def width_class(self, notify: Notify) -> tuple[int, ...]:
        return self._bits.width_class(notify)

    def agreeing_threads(self, notify: Notify) -> tuple[int, ...]:
        return self._bits.agreeing_threads(notify)

    def measure(self, should_stop: Callable[[], bool]) -> Tuning | None:
        from edgespec.tune.tuner import UNDER_LOAD, tune

        said: list[Notice] = []
        found = tune(self.header.path, self.library, self._forced, lambda _: None, should_stop, notify=said.append)
        return None if UNDER_LOAD in [notice.code for notice in said] else found


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
    return Opened(header, target, LlamaVocabulary(model), library, forced_by(options), tuning)


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
