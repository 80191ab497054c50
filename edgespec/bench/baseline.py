"""The library as it comes, beside edgespec in the same process: opened where it is proven not to end the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from edgespec.backend import machine
from edgespec.backend.probe import proven_settings
from edgespec.bench.arms import LibraryArm
from edgespec.config import cache_dir
from edgespec.engine import Engine
from edgespec.engine.choosing import cache_shape
from edgespec.engine.core import end_tokens
from edgespec.errors import EngineFailure
from edgespec.events import Notice
from edgespec.library.card import ModelCard
from edgespec.library.memory import check_memory
from edgespec.records import Records


@contextmanager
def library_arm(
    engine: Engine, card: ModelCard | None, max_tokens: int, notify: Callable[[Notice], None]
) -> Iterator[LibraryArm]:
    """A second copy of the engine's model with the library's own settings. Its answers know no stop strings.

    Raises NotEnoughMemory when there is no room for a copy, EngineFailure when these settings end a process here.
    """
    from edgespec.backend.llama.library import LibraryDefaults, default_settings
    from edgespec.backend.llama.native import library_fingerprint

    path, wanted = engine.header.path, default_settings(engine.settings.n_ctx)
    check_memory(engine.header, wanted.n_ctx, cache_shape(engine.header, wanted), machine.available_memory_bytes())
    records = Records(cache_dir() / "trials.json")
    if proven_settings(path, wanted, library_fingerprint(), records, notify) != wanted:
        raise EngineFailure("--baseline defaults", "the library's defaults end the process here", "leave it out")
    with closing(LibraryDefaults(path, wanted.n_ctx)) as library:
        yield LibraryArm(library, max_tokens, end_tokens(engine.vocab, card))
