"""llama-cpp-python's own `Llama` as it comes: what a user gets who changes nothing. For comparing only.

Contract: greedy decoding through the public methods of `Llama`, every setting left alone but the length of the context,
whose default of 512 tokens is too short for many prompts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from pathlib import Path

from llama_cpp import Llama

from edgespec.backend.settings import FlashAttention, LlamaSettings
from edgespec.errors import EngineFailure


def default_settings(n_ctx: int) -> LlamaSettings:
    """What `Llama` chooses by itself, for a trial before it is opened in this process."""
    return LlamaSettings(n_ctx=n_ctx, n_threads=max(1, (os.cpu_count() or 1) // 2), flash_attention=FlashAttention.AUTO)


class LibraryDefaults:
    """One text at a time: `read` begins a new one, `generate` goes on with it. Raises EngineFailure."""

    def __init__(self, path: Path, n_ctx: int) -> None:
        try:
            self._llama = Llama(str(path), n_ctx=n_ctx, verbose=False)
        except (ValueError, RuntimeError) as error:
            raise EngineFailure(f"{path} in Llama()", str(error), "leave out --baseline defaults") from error

    def read(self, tokens: Seq[int]) -> None:
        """Forget what was read, then read these."""
        self._llama.reset()
        if tokens:
            self._llama.eval(list(tokens))

    def generate(self, token: int) -> Iterator[int]:
        """Read one more token and say greedily what follows, without end."""
        yield from self._llama.generate([token], temp=0.0, reset=False)

    def close(self) -> None:
        self._llama.close()
