"""Engine settings: what cannot work is refused at once, and what is written down comes back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from edgespec.backend.settings import SPLIT, FlashAttention, KvType, LlamaSettings, loaded_alike, retreats
from edgespec.errors import BadInput

PLAIN = LlamaSettings()


@pytest.mark.parametrize(
    "settings",
    [
        PLAIN,
        PLAIN.on_gpu(),
        PLAIN.windowed(),
        LlamaSettings(n_ctx=1, n_threads=3, flash_attention=FlashAttention.ON, kv_type=KvType.Q4_0, max_leaves=2),
    ],
    ids=["plain", "gpu", "windowed", "other"],
)
def test_settings_come_back_from_their_text(settings: LlamaSettings) -> None:
    assert LlamaSettings.from_json(settings.to_json()) == settings


def test_other_settings_have_another_text() -> None:
    changed = [
        replace(PLAIN, n_ctx=8),
        replace(PLAIN, n_threads=2),
        replace(PLAIN, flash_attention=FlashAttention.ON),
        replace(PLAIN, extra_buffers=False),
        replace(PLAIN, n_gpu_layers=-1),
        replace(PLAIN, flash_attention=FlashAttention.ON, kv_type=KvType.Q8_0),
        replace(PLAIN, swa_full=False),
        replace(PLAIN, prefill_chunk=8),
        replace(PLAIN, max_rows=8),
        replace(PLAIN, max_leaves=2),
        replace(PLAIN, max_sequences=2),
        replace(PLAIN, main_gpu=0),
    ]
    assert len({settings.to_json() for settings in [PLAIN, *changed]}) == len(changed) + 1


@pytest.mark.parametrize("kv_type", [KvType.Q8_0, KvType.Q4_0])
def test_a_quantised_cache_needs_flash_attention(kv_type: KvType) -> None:
    with pytest.raises(BadInput, match=f"a KV cache of type {kv_type.value}: .* only with flash attention"):
        LlamaSettings(kv_type=kv_type)
    for flash in (FlashAttention.ON, FlashAttention.AUTO):
        assert LlamaSettings(kv_type=kv_type, flash_attention=flash).kv_type is kv_type


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n_ctx", 0),
        ("n_ctx", 1 << 31),
        ("n_threads", 0),
        ("n_threads", 513),
        ("n_gpu_layers", -2),
        ("main_gpu", -2),
        ("main_gpu", 16),
        ("prefill_chunk", 0),
        ("max_rows", 0),
        ("max_leaves", 0),
        ("max_leaves", 257),
        ("max_sequences", 0),
        ("max_sequences", 33),  # times 8 leaves
    ],
)
def test_values_beyond_the_library_are_refused(field: str, value: int) -> None:
    with pytest.raises(BadInput, match=f"{field}.* {value * 8 if value == 33 else value}: llama.cpp takes"):
        replace(PLAIN, **{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["n_ctx", "n_threads", "prefill_chunk", "max_rows", "max_leaves", "max_sequences"])
def test_the_least_value_of_everything_is_possible(field: str) -> None:
    assert getattr(replace(PLAIN, **{field: 1}), field) == 1  # type: ignore[arg-type]


def test_ids_are_counted() -> None:
    assert PLAIN.n_ids == PLAIN.max_sequences * PLAIN.max_leaves
    assert LlamaSettings(max_sequences=32).n_ids == 256


@pytest.mark.parametrize(("n_ctx", "n_cells"), [(1, 256), (224, 256), (225, 512), (4096, 4352)])
def test_cells_come_in_multiples_and_hold_a_pass_beyond_the_context(n_ctx: int, n_cells: int) -> None:
    assert replace(PLAIN, n_ctx=n_ctx).n_cells == n_cells
    assert replace(PLAIN, n_ctx=n_ctx).window_cells(512) == n_cells


@pytest.mark.parametrize(("n_swa", "n_cells"), [(1, 512), (32, 512), (512, 2304), (1024, 4352), (4096, 4352)])
def test_a_small_window_cache_holds_a_window_for_each_id(n_swa: int, n_cells: int) -> None:
    assert PLAIN.windowed().window_cells(n_swa) == n_cells


def test_a_small_window_cache_has_few_ids() -> None:
    small = PLAIN.windowed()
    assert (small.swa_full, small.max_leaves, small.n_ids) == (False, 1, PLAIN.max_sequences)
    assert replace(small, swa_full=True, max_leaves=PLAIN.max_leaves) == PLAIN


def test_retreats_get_ever_safer() -> None:
    assert [(s.n_gpu_layers, s.extra_buffers) for s in retreats(PLAIN.on_gpu())] == [(-1, True), (0, True), (0, False)]
    assert retreats(PLAIN) == [PLAIN, replace(PLAIN, extra_buffers=False)]
    assert retreats(replace(PLAIN, extra_buffers=False)) == [replace(PLAIN, extra_buffers=False)]


def test_without_the_gpu_flash_attention_is_chosen_again() -> None:
    """On a CPU it is slower, except that a quantised cache needs it."""
    assert PLAIN.on_gpu().flash_attention is FlashAttention.AUTO
    assert PLAIN.on_gpu().on_cpu() == PLAIN
    chosen = replace(PLAIN, flash_attention=FlashAttention.ON, n_gpu_layers=9)
    assert chosen.on_cpu().flash_attention is FlashAttention.ON
    quantised = replace(PLAIN.on_gpu(), kv_type=KvType.Q8_0)
    assert quantised.on_cpu().flash_attention is FlashAttention.AUTO


def test_a_retreat_to_the_cpu_forgets_which_gpu_it_was() -> None:
    assert replace(PLAIN.on_gpu(), main_gpu=3).on_cpu() == PLAIN


def test_what_needs_the_model_loaded_anew() -> None:
    assert loaded_alike(PLAIN, replace(PLAIN, n_ctx=64, n_threads=2, flash_attention=FlashAttention.ON))
    for other in (replace(PLAIN, extra_buffers=False), replace(PLAIN, n_gpu_layers=3), replace(PLAIN, main_gpu=1)):
        assert not loaded_alike(PLAIN, other)


def test_settings_that_were_kept_before_there_was_a_choice_of_gpus_have_the_librarys() -> None:
    kept = json.loads(PLAIN.on_gpu().to_json())
    del kept["main_gpu"]
    assert LlamaSettings.from_json(json.dumps(kept)) == PLAIN.on_gpu()
    assert PLAIN.on_gpu().main_gpu == SPLIT


def test_bytes_of_a_cached_value() -> None:
    """Blocks of 32 values: 34 bytes at 8 bits, 18 at 4 bits."""
    assert [kv_type.bytes_per_value * 32 for kv_type in KvType] == [64, 34, 18]
