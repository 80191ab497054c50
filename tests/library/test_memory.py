"""Estimates against what llama.cpp really allocates, and refusals that name a context that would fit."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.backend.llama.log import log
from edgespec.backend.llama.native import load_model
from edgespec.backend.llama.target import LlamaTarget
from edgespec.backend.settings import LlamaSettings
from edgespec.engine.choosing import cache_shape
from edgespec.errors import NotEnoughMemory
from edgespec.library.header import GgufHeader, read_header
from edgespec.library.memory import (
    BITS_PER_WEIGHT,
    FIXED_BYTES,
    CacheShape,
    check_memory,
    estimate,
    fits,
    is_windowed,
)
from tools.make_toy_model import SHAPES, Kind, write_toy_model

MIB = 1 << 20
SHAPE = CacheShape(n_rows=32)


def model(folder: Path, kind: Kind, n_layer: int = 0) -> GgufHeader:
    shape = SHAPES[kind]
    path = folder / f"{kind.value}.gguf"
    return read_header(write_toy_model(path, kind, shape=replace(shape, n_layer=n_layer or shape.n_layer)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def llama(folder: Path) -> GgufHeader:
    return model(folder, Kind.LLAMA)


@pytest.fixture(scope="module")
def gemma(folder: Path) -> GgufHeader:
    return model(folder, Kind.GEMMA3, n_layer=13)


def test_the_parts_of_an_estimate(llama: GgufHeader) -> None:
    """3 blocks of 2 key-value heads of 16 + 16 values; logits of 448 tokens, in the graph and on the host."""
    need = estimate(llama, SHAPE)
    assert need.weights_bytes == llama.tensor_bytes > 600_000
    assert (need.bytes_per_token, need.bytes_per_window_cell) == (3 * 2 * 32 * 2, 0)
    assert need.buffers_bytes == FIXED_BYTES + 32 * 448 * 4 * 2
    assert need.total_bytes(1000) - need.total_bytes(0) == 1000 * need.bytes_per_token


@pytest.mark.parametrize(("bytes_per_value", "per_token"), [(2.0, 384), (34 / 32, 204), (18 / 32, 108)])
def test_a_quantised_cache_is_smaller(bytes_per_value: float, per_token: int, llama: GgufHeader) -> None:
    assert estimate(llama, replace(SHAPE, bytes_per_value=bytes_per_value)).bytes_per_token == per_token


def test_blocks_with_their_own_counts_are_summed(folder: Path) -> None:
    """A hybrid has heads in two of its four blocks, a recurrent model in none."""
    assert estimate(model(folder, Kind.JAMBA), SHAPE).bytes_per_token == 2 * 2 * 32 * 2
    assert estimate(model(folder, Kind.MAMBA), SHAPE).bytes_per_token == 0


def test_windowed_blocks_are_counted_apart(gemma: GgufHeader) -> None:
    """Of Gemma 3's blocks every sixth sees everything: 2 of 13."""
    per_block = 2 * 32 * 2
    need = estimate(gemma, replace(SHAPE, window_cells=384))
    assert (need.bytes_per_token, need.bytes_per_window_cell) == (2 * per_block, 11 * per_block)
    assert need.total_bytes(10_000) - need.total_bytes(0) == 10_000 * 2 * per_block + 384 * 11 * per_block
    assert need.total_bytes(100) - need.total_bytes(0) == 100 * 13 * per_block  # no more cells than the context
    full = estimate(gemma, SHAPE)
    assert full.total_bytes(10_000) - full.total_bytes(0) == 10_000 * 13 * per_block


@pytest.mark.parametrize(
    ("architecture", "pattern", "windowed"),
    [
        ("gemma3", None, [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 12]),
        ("gemma2", None, [0, 2, 4, 6, 8, 10, 12]),
        ("gpt-oss", None, [0, 2, 4, 6, 8, 10, 12]),
        ("llama", None, []),  # states a window that llama.cpp does not use
        ("gemma3", 3, [0, 1, 3, 4, 6, 7, 9, 10, 12]),
        ("llama", 2, [0, 2, 4, 6, 8, 10, 12]),
        ("gemma3", 1, []),
        ("gemma3", 0, list(range(13))),
        ("gemma4", (True, False, True), [0, 2]),
    ],
)
def test_which_blocks_are_windowed(
    architecture: str, pattern: int | tuple[bool, ...] | None, windowed: list[int], gemma: GgufHeader
) -> None:
    values = {} if pattern is None else {f"{architecture}.attention.sliding_window_pattern": pattern}
    header = replace(gemma, architecture=architecture, values=values)
    assert [block for block in range(13) if is_windowed(header, block)] == windowed
    assert not any(is_windowed(replace(header, sliding_window=0), block) for block in range(13))


def test_what_fits_is_taken_to_the_last_byte(llama: GgufHeader) -> None:
    """A tenth of the free memory is left alone."""
    total = estimate(llama, SHAPE).total_bytes(4096)
    enough = -(-total * 10 // 9)
    check_memory(llama, 4096, SHAPE, enough)
    assert fits(llama, 4096, SHAPE, enough)
    assert not fits(llama, 4096, SHAPE, total)
    with pytest.raises(NotEnoughMemory):
        check_memory(llama, 4096, SHAPE, total)


def test_a_refusal_names_need_shortfall_and_a_context_that_fits(llama: GgufHeader) -> None:
    huge = replace(llama, head_counts_kv=(2000,))  # 384,000 bytes a token
    available = 1024 * MIB
    with pytest.raises(NotEnoughMemory) as caught:
        check_memory(huge, 4096, SHAPE, available)
    assert caught.value.what == "llama.gguf with a context of 4096 tokens needs 1.8 GB"
    assert caught.value.why == "1.1 GB of memory are free, 809 MB too few with a margin"
    fitting = int(caught.value.remedy.removeprefix("give --ctx-size "))
    assert fitting % 256 == 0
    check_memory(huge, fitting, SHAPE, available)
    assert not fits(huge, fitting + 256, SHAPE, available)


@pytest.mark.parametrize(
    ("billions", "tensor_gb", "remedy"),
    [
        (5.1, 5.1, "give --ctx-size 768"),
        (6.4, 12.8, "take a Q5_K_M (4.6 GB) file of the model"),
        (8.6, 17.2, "take a Q3_K_M (4.3 GB) file of the model"),
        (12.0, 24.0, "take a Q2_K (4.8 GB) file of the model and --ctx-size 512"),
        (16.0, 32.0, "take a smaller model"),
        (16.0, 6.0, "take a smaller model"),  # it has less than 3.2 bits per weight already
    ],
)
def test_where_no_context_would_fit_a_quantisation_is_named(
    billions: float, tensor_gb: float, remedy: str, llama: GgufHeader
) -> None:
    """Of 5.4 GB, buffers take 0.2 and a token of context 115 kB: 4.73 GB are left with 4,096 tokens, 5.14 with 512."""
    n_parameters, n_bytes = int(billions * 1e9), int(tensor_gb * 1e9)
    need = replace(llama, n_parameters=n_parameters, tensor_bytes=n_bytes, head_counts_kv=(600,))
    with pytest.raises(NotEnoughMemory) as caught:
        check_memory(need, 4096, SHAPE, 6_000 * 10**6)
    assert caught.value.remedy == remedy


@given(
    st.integers(1, 1 << 34), st.floats(2.0, 32.0), st.integers(1, 4000), st.integers(1, 8192), st.integers(0, 1 << 34)
)
def test_what_a_refusal_names_would_fit(
    llama: GgufHeader, n_parameters: int, bits: float, heads: int, n_ctx: int, available: int
) -> None:
    n_bytes = int(n_parameters * bits / 8)
    header = replace(llama, n_parameters=n_parameters, tensor_bytes=n_bytes, head_counts_kv=(heads,))
    if fits(header, n_ctx, SHAPE, available):
        check_memory(header, n_ctx, SHAPE, available)
        return
    with pytest.raises(NotEnoughMemory) as caught:
        check_memory(header, n_ctx, SHAPE, available)
    words = caught.value.remedy.split()
    size = int(words[-1]) if "--ctx-size" in words else n_ctx
    if "file" in words:
        smaller = int(n_parameters * dict(BITS_PER_WEIGHT)[words[2]] / 8)
        assert smaller < n_bytes
        header = replace(header, tensor_bytes=smaller)
    if words[-1] != "model" or "file" in words:
        check_memory(header, size, SHAPE, available)
    else:
        smallest = int(n_parameters * BITS_PER_WEIGHT[-1][1] / 8)
        assert not fits(replace(header, tensor_bytes=min(n_bytes, smallest)), min(n_ctx, 512), SHAPE, available)


def test_a_cache_that_no_weights_make_room_for_asks_for_another_model(llama: GgufHeader) -> None:
    with pytest.raises(NotEnoughMemory) as caught:
        check_memory(replace(llama, head_counts_kv=(200_000,)), 4096, SHAPE, 1024 * MIB)
    assert caught.value.remedy == "take a smaller model"


def test_a_small_context_is_not_made_smaller(llama: GgufHeader) -> None:
    huge = replace(llama, head_counts_kv=(20_000,))
    with pytest.raises(NotEnoughMemory) as caught:
        check_memory(huge, 300, SHAPE, 1024 * MIB)
    assert caught.value.remedy == "take a smaller model"


@pytest.mark.parametrize("window_cells", [0, 384])
def test_the_context_that_is_named_counts_windows(window_cells: int, gemma: GgufHeader) -> None:
    shape = replace(SHAPE, window_cells=window_cells)
    huge = replace(gemma, head_counts_kv=(1000,))
    with pytest.raises(NotEnoughMemory) as caught:
        check_memory(huge, 100_000, shape, 4096 * MIB)
    fitting = int(caught.value.remedy.removeprefix("give --ctx-size "))
    assert fits(huge, fitting, shape, 4096 * MIB)
    assert not fits(huge, fitting + 256, shape, 4096 * MIB)


@pytest.mark.parametrize("small", [False, True])
def test_the_cache_is_as_large_as_llama_cpp_says(small: bool, gemma: GgufHeader) -> None:
    """It logs the size of each cache that it makes: for blocks that see everything, and for those with a window."""
    full = LlamaSettings(n_ctx=4064)
    settings = full.windowed() if small else full
    log().forget()
    LlamaTarget(load_model(gemma.path, settings), settings).close()
    sizes = [re.search(r"size = +([0-9.]+) MiB \(", line) for _level, line in log()._lines]
    allocated = sum(float(size.group(1)) for size in sizes if size)
    need = estimate(gemma, cache_shape(gemma, settings))
    assert need.total_bytes(settings.n_cells) - need.total_bytes(0) == pytest.approx(allocated * MIB, rel=0.01)
