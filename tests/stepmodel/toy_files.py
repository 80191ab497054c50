"""Small GGUFs of every architecture that step models know, and of ones they refuse: variations of the random toys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

from tools.make_toy_model import SHAPES, Kind, write_toy_model

WIDTH, N_BLOCKS, HEAD_DIM, N_HEADS, N_KV_HEADS, N_VOCAB = 64, 3, 16, 4, 2, 448
# Gemma's last layer of six sees everything.
DEPTHS = {"gemma3": 6}


@dataclass(frozen=True, slots=True)
class Variation:
    """What differs from the llama toy. stored: how the blocks' matrices are quantised, by GGML's name. settings: keys
    that are added or replaced, floats and texts. extra: tensors that are added. left_out: tensors that are not.
    """

    architecture: str = "llama"
    stored: str = "F32"
    settings: Mapping[str, str | float | int] | None = None
    extra: Mapping[str, npt.NDArray[np.float32]] | None = None
    left_out: tuple[str, ...] = ()
    n_blocks: int = N_BLOCKS


def write_model(path: Path, architecture: str = "llama", stored: str = "F32", seed: int = 0) -> Path:
    """A model that llama.cpp runs: with biases for qwen2, head norms for qwen3, windows of 32 tokens for gemma3."""
    n_blocks = DEPTHS.get(architecture, N_BLOCKS)
    extra = dict(_extra(architecture, n_blocks, np.random.default_rng(seed)))
    return write_variation(path, Variation(architecture, stored, extra=extra, n_blocks=n_blocks), seed)


def write_variation(path: Path, variation: Variation, seed: int = 0) -> Path:
    kind = Kind.GEMMA3 if variation.architecture == "gemma3" else Kind.LLAMA
    base = path.with_suffix(".base.gguf")
    write_toy_model(base, kind, seed, replace(SHAPES[kind], n_layer=variation.n_blocks))
    reader = gguf.GGUFReader(base)
    writer = gguf.GGUFWriter(path, variation.architecture)
    _copy_fields(reader, writer, kind.value, variation)
    tensors = {tensor.name: np.array(tensor.data) for tensor in reader.tensors}
    for name, values in {**tensors, **(variation.extra or {})}.items():
        if name not in variation.left_out:
            stored = variation.stored if name.startswith("blk.") and values.ndim == 2 else "F32"
            kind_of = gguf.GGMLQuantizationType[stored]
            writer.add_tensor(name, gguf.quants.quantize(values, kind_of), raw_dtype=kind_of)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _copy_fields(reader: gguf.GGUFReader, writer: gguf.GGUFWriter, base: str, variation: Variation) -> None:
    settings = variation.settings or {}
    for name, field in reader.fields.items():
        key = name.replace(f"{base}.", f"{variation.architecture}.", 1) if name.startswith(f"{base}.") else name
        if name.startswith("GGUF.") or name == "general.architecture" or key in settings:
            continue
        kind = field.types[0]
        writer.add_key_value(key, field.contents(), kind, field.types[-1] if len(field.types) > 1 else None)
    for key, value in settings.items():
        if isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        else:
            writer.add_float32(key, value)


def _extra(architecture: str, n_blocks: int, rng: np.random.Generator) -> Iterator[tuple[str, npt.NDArray[np.float32]]]:
    for i in range(n_blocks):
        if architecture == "qwen2":
            for part, n_heads in (("q", N_HEADS), ("k", N_KV_HEADS), ("v", N_KV_HEADS)):
                yield f"blk.{i}.attn_{part}.bias", rng.normal(0, 0.5, n_heads * HEAD_DIM).astype(np.float32)
        if architecture == "qwen3":
            yield f"blk.{i}.attn_q_norm.weight", rng.uniform(0.5, 2, HEAD_DIM).astype(np.float32)
            yield f"blk.{i}.attn_k_norm.weight", rng.uniform(0.5, 2, HEAD_DIM).astype(np.float32)
        for norm in ("attn_norm", "ffn_norm"):
            yield f"blk.{i}.{norm}.weight", rng.uniform(0.5, 1.5, WIDTH).astype(np.float32)
