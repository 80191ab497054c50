"""Small GGUF files for tests: written by the reference writer, and by hand where a file must be wrong."""

from __future__ import annotations

import struct
from pathlib import Path

import gguf
import numpy as np


def write_model(path: Path, *, name: str = "Toy", kind: str = "model", arch: str = "llama", template: str = "") -> Path:
    """A sound model of two tensors, 3 tokens and 2 blocks with different numbers of key-value heads."""
    writer = gguf.GGUFWriter(path, arch)
    writer.add_type(kind)
    writer.add_name(name)
    writer.add_size_label("1K")
    writer.add_context_length(512)
    writer.add_block_count(2)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(128)
    writer.add_head_count(4)
    writer.add_head_count_kv([2, 1])
    writer.add_sliding_window(128)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_token_list(["a", "b", "c"])
    if template:
        writer.add_chat_template(template)
    writer.add_tensor("token_embd.weight", np.ones((3, 64), dtype=np.float32))
    writer.add_tensor(
        "blk.0.attn_q.weight", np.zeros((8, 68), dtype=np.uint8), raw_dtype=gguf.GGMLQuantizationType.Q8_0
    )
    return _finish(writer, path)


def write_part(path: Path, number: int, count: int) -> Path:
    """Part `number`, from 0, of a split model."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint16("split.no", number)
    writer.add_uint16("split.count", count)
    writer.add_tensor(f"blk.{number}.weight", np.ones((4, 32), dtype=np.float32))
    return _finish(writer, path)


def write_vocabulary(path: Path, n_tokens: int) -> Path:
    """A model whose header is mostly its vocabulary."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_token_list([f"token{number}" for number in range(n_tokens)])
    writer.add_token_scores([0.0] * n_tokens)
    writer.add_tensor("token_embd.weight", np.ones((1, 32), dtype=np.float32))
    return _finish(writer, path)


def _finish(writer: gguf.GGUFWriter, path: Path) -> Path:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def raw_header(n_tensors: int, n_keys: int, body: bytes = b"", version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, n_tensors, n_keys) + body


def raw_text(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def raw_tensor(name: bytes, dims: tuple[int, ...], kind: int, offset: int) -> bytes:
    return raw_text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
