from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgespec.backend.settings import FlashAttention, LlamaSettings
from edgespec.engine.choosing import (
    cache_shape,
    fitting_settings,
    forced_by,
    known_tuning,
    tuned_as,
    tuned_settings,
    wanted_settings,
)
from edgespec.engine.options import MAX_PARALLEL, EngineOptions
from edgespec.errors import NotEnoughMemory
from edgespec.events import Notice
from edgespec.library.memory import estimate
from edgespec.records import Records
from edgespec.spec.cost import CostTable
from edgespec.tune.store import Forced, save_tuning
from edgespec.tune.tuning import Choice, Tuned, Tuning
from tests.engine.toy_engine import header

BOTH, ALONE = CostTable((0,), (1, 2), ((0.01, 0.02),)), CostTable((0,), (1, 2), ((0.02, 0.03),))
ON = LlamaSettings(n_ctx=128, n_threads=2, flash_attention=FlashAttention.ON)
OFF = replace(ON, flash_attention=FlashAttention.OFF)
TUNING = Tuning(
    (Choice(400, Tuned(ON, BOTH, ALONE)), Choice(4096, Tuned(OFF, BOTH, ALONE))),
    (128, 1024),
    (),
    ON,
    1.5,
    (1, 2),
    False,
    "2026-01-01T00:00:00",
)
# A model with sliding windows in which five blocks of six do not see the whole text.
WINDOWED = replace(
    header(),
    architecture="gemma3",
    block_count=6,
    head_counts_kv=(8,),
    key_length=128,
    value_length=128,
    sliding_window=512,
    n_vocab=1000,
    tensor_bytes=1 << 20,
)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    return path


def test_what_is_wanted_follows_the_options_and_the_model() -> None:
    model = replace(header(), context_length=2048)
    wanted = wanted_settings(model, EngineOptions(ctx_size=4096, threads=3))
    assert (wanted.n_ctx, wanted.n_threads, wanted.n_gpu_layers) == (2048, 3, 0)
    assert wanted_settings(header(), EngineOptions(ctx_size=4096)).n_ctx == 4096  # the file states no limit
    assert wanted_settings(model, EngineOptions(gpu_layers=-1)).n_gpu_layers == -1
    assert wanted_settings(model, EngineOptions()).n_threads >= 1


def test_as_many_sequences_as_are_wanted_and_one_tuning_for_all() -> None:
    """With the usual number the settings are the default's, so what was tried and measured of them counts."""
    usual, most = (wanted_settings(header(), EngineOptions(threads=2, parallel=n)) for n in (4, MAX_PARALLEL))
    assert usual == LlamaSettings(n_threads=2)
    assert (most.max_sequences, most.windowed().n_ids) == (MAX_PARALLEL, MAX_PARALLEL)
    assert tuned_settings(most, TUNING.choices[0].tuned).max_sequences == MAX_PARALLEL
    assert tuned_as(tuned_settings(most, TUNING.choices[0].tuned), TUNING) == TUNING.choices[0].tuned


def test_a_small_window_cache_where_the_full_one_does_not_fit() -> None:
    notices: list[Notice] = []
    wanted = LlamaSettings(n_ctx=32768)
    full = estimate(WINDOWED, cache_shape(WINDOWED, wanted)).total_bytes(wanted.n_ctx)
    small = estimate(WINDOWED, cache_shape(WINDOWED, wanted.windowed())).total_bytes(wanted.n_ctx)
    assert small < full
    assert fitting_settings(WINDOWED, wanted, 2 * full, notices.append) == wanted
    assert notices == []
    assert fitting_settings(WINDOWED, wanted, full, notices.append) == wanted.windowed()
    assert [notice.code for notice in notices] == ["windowed-cache"]
    with pytest.raises(NotEnoughMemory):
        fitting_settings(WINDOWED, wanted, small, notices.append)


def test_without_windows_there_is_no_smaller_cache() -> None:
    model, wanted = replace(WINDOWED, sliding_window=0), LlamaSettings(n_ctx=32768)
    full = estimate(model, cache_shape(model, wanted)).total_bytes(wanted.n_ctx)
    with pytest.raises(NotEnoughMemory):
        fitting_settings(model, wanted, full, lambda _: None)


def test_the_callers_wishes_are_what_tuning_must_keep() -> None:
    assert forced_by(EngineOptions()) == Forced()
    assert forced_by(EngineOptions(threads=3, gpu_layers=0, extra_buffers=False)) == Forced(3, False, 0)


def test_a_tuning_is_known_under_the_wishes_it_was_made_with(model: Path) -> None:
    records = Records(model.with_name("tuning.json"))
    save_tuning(model, "build", Forced(), records, TUNING)
    assert known_tuning(model, "build", EngineOptions(), records) == TUNING
    assert known_tuning(model, "build", EngineOptions(threads=2), records) is None
    assert known_tuning(model, "other build", EngineOptions(), records) is None


def test_for_one_thread_what_was_measured_beside_all_of_them_will_do(model: Path) -> None:
    records = Records(model.with_name("tuning.json"))
    save_tuning(model, "build", Forced(), records, TUNING)
    known = known_tuning(model, "build", EngineOptions(threads=1), records)
    assert known is not None
    assert known.width_class == ()  # which widths agree was compared with two threads
    assert [one.tuned for one in known.choices] == [
        Tuned(replace(ON, n_threads=1), ALONE, ALONE),
        Tuned(replace(OFF, n_threads=1), ALONE, ALONE),
    ]


def test_what_runs_is_as_measured_only_if_nothing_but_the_room_differs() -> None:
    running = tuned_settings(LlamaSettings(n_ctx=4096), TUNING.choices[1].tuned)
    assert (running.n_ctx, running.flash_attention) == (4096, FlashAttention.OFF)
    assert tuned_as(running, TUNING) is TUNING.choices[1].tuned
    assert tuned_as(replace(running, extra_buffers=False), TUNING) is None
    assert tuned_as(running, None) is None


def test_a_cache_that_was_made_small_stays_small() -> None:
    small = replace(LlamaSettings(n_ctx=4096), flash_attention=FlashAttention.OFF).windowed()
    running = tuned_settings(small, TUNING.choices[0].tuned)
    assert (running.swa_full, running.max_leaves) == (False, 1)
    assert tuned_as(running, TUNING) is TUNING.choices[0].tuned
