from __future__ import annotations

import pytest

from edgespec.backend.settings import FlashAttention, KvType, LlamaSettings
from edgespec.tune.store import Forced
from edgespec.tune.words import in_words, users


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
        (LlamaSettings(n_gpu_layers=-1, main_gpu=1), "GPU 1, flash attention off, 1 thread"),
        (LlamaSettings(n_gpu_layers=12, main_gpu=0), "12 layers on the GPU 0, flash attention off, 1 thread"),
    ],
)
def test_words(settings: LlamaSettings, words: str) -> None:
    assert in_words(settings) == words


@pytest.mark.parametrize(
    ("forced", "said"),
    [
        (Forced(), "force neither --threads nor --gpu-layers"),
        (Forced(threads=2), "with --threads 2 use it, and no others"),
        (Forced(threads=2, gpu_layers=0), "with --threads 2 --gpu-layers 0 use it, and no others"),
        (Forced(extra_buffers=False), "with EngineOptions(extra_buffers=False) use it"),
        (Forced(kv_type=KvType.Q8_0), "no program asks for a type"),
    ],
)
def test_it_is_said_who_uses_what_was_found(forced: Forced, said: str) -> None:
    assert said in users(forced)
