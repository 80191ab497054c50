from __future__ import annotations

import pytest

from edgespec.backend.settings import FlashAttention, KvType, LlamaSettings
from edgespec.tune.words import in_words


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (LlamaSettings(), "flash attention off, 1 thread"),
        (LlamaSettings(n_threads=2, n_threads_batch=4), "flash attention off, 2 threads, 4 when drafting"),
        (LlamaSettings(n_threads=2, extra_buffers=False), "flash attention off, 2 threads, no extra buffers"),
        (
            LlamaSettings(n_gpu_layers=-1, flash_attention=FlashAttention.AUTO, kv_type=KvType.Q8_0),
            "GPU, flash attention auto, 1 thread, KV cache q8_0",
        ),
        (LlamaSettings(n_gpu_layers=12), "12 layers on the GPU, flash attention off, 1 thread"),
    ],
)
def test_words(settings: LlamaSettings, words: str) -> None:
    assert in_words(settings) == words
