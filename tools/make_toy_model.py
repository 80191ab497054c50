"""Writes tiny GGUF models with random weights that llama.cpp runs: one of each kind of memory that a test needs.

Contract: the same kind and seed give the same bytes; a file is under 3 MB. The models say nothing sensible, but their
next token depends on the context and is moderately uncertain. Ids 0..255 are the bytes, then come the special tokens,
then merged pieces. Knows nothing of edgespec.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from pathlib import Path

import click
import gguf
import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]

SPECIALS = ("<|bos|>", "<|eos|>", "<|im_start|>", "<|im_end|>", "<|pad|>")
BOS, EOS, TURN_START, TURN_END, PAD = range(256, 256 + len(SPECIALS))
N_VOCAB = 448
N_CONV = N_RANK = 4  # of state-space layers
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# What the merges are learned from: enough common words that ordinary English becomes fewer tokens than letters.
SAMPLE_TEXT = """the small river runs under the old bridge and the children of the village play there in the summer
they throw stones into the water and count the rings and when the sun is low they walk home along the fields
in the winter the river is still and nobody comes to the bridge but an old man with his dog he says that the water
has a memory and that it will tell you what it has seen if you listen long enough the user asks a question
and the assistant gives an answer yes no or perhaps this is how the world was made said the other one"""


class Kind(str, Enum):
    """By the memory they keep: full attention, sliding window, full with experts, recurrent, hybrid."""

    LLAMA = "llama"
    GEMMA3 = "gemma3"
    MOE = "moe"
    MAMBA = "mamba"
    JAMBA = "jamba"


class Format(str, Enum):
    """How the matrices are stored; everything else is F32."""

    F32 = "f32"
    F16 = "f16"
    Q8_0 = "q8_0"
    Q4_0 = "q4_0"


@dataclass(frozen=True, slots=True)
class Shape:
    """`sharpness` is the standard deviation of the logits; `attention_gain` makes heads look at few tokens.

    `end_strength` scales the logits of special tokens: at 0 they lie far below the best, so an answer never ends by
    itself; at 1 an end token is as likely as any other.
    """

    architecture: str
    n_layer: int
    n_embd: int = 64
    n_head: int = 4
    n_head_kv: int = 2
    n_ff: int = 128
    n_ctx: int = 4096
    n_expert: int = 0
    n_expert_used: int = 0
    sliding_window: int = 0
    n_state: int = 16
    attention_layers: tuple[int, ...] = ()  # of mamba and jamba; the other layers are recurrent
    sharpness: float = 2.5
    attention_gain: float = 2.0
    end_strength: float = 0.0
    weights: Format = Format.F32

    @property
    def head_size(self) -> int:
        return self.n_embd // self.n_head

    @property
    def heads_kv(self) -> list[int]:
        """By layer; 0 marks a recurrent one."""
        if self.architecture not in ("mamba", "jamba"):
            return [self.n_head_kv] * self.n_layer
        return [self.n_head_kv if layer in self.attention_layers else 0 for layer in range(self.n_layer)]


SHAPES = {
    Kind.LLAMA: Shape("llama", n_layer=3),
    # Of six layers the last one sees everything, as in Gemma 3.
    Kind.GEMMA3: Shape("gemma3", n_layer=6, sliding_window=32),
    Kind.MOE: Shape("llama", n_layer=2, n_expert=4, n_expert_used=2),
    Kind.MAMBA: Shape("mamba", n_layer=3),
    Kind.JAMBA: Shape("jamba", n_layer=4, attention_layers=(1, 3)),
}


def write_toy_model(path: Path, kind: Kind = Kind.LLAMA, seed: int = 0, shape: Shape | None = None) -> Path:
    """Write a model and return `path`. `shape` replaces the usual one, as in `replace(SHAPES[kind], n_layer=8)`."""
    shape = shape or SHAPES[kind]
    writer = gguf.GGUFWriter(path, shape.architecture)
    _write_sizes(writer, shape)
    _write_vocabulary(writer)
    for tensor in _Weights(shape, np.random.default_rng(seed)).tensors():
        stored = gguf.GGMLQuantizationType[tensor.format.name]
        writer.add_tensor(tensor.name, gguf.quants.quantize(tensor.values, stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def truncate(path: Path, n_bytes: int) -> None:
    """Keep the first `n_bytes`, as a download that broke off would."""
    path.write_bytes(path.read_bytes()[:n_bytes])


def corrupt(path: Path, start: int, n_bytes: int = 16) -> None:
    """Invert `n_bytes` from `start` on: 0 spoils the magic number, 8 the count of tensors, 24 the first key."""
    data = bytearray(path.read_bytes())
    data[start : start + n_bytes] = bytes(byte ^ 0xFF for byte in data[start : start + n_bytes])
    path.write_bytes(data)


def _write_sizes(writer: gguf.GGUFWriter, shape: Shape) -> None:
    writer.add_block_count(shape.n_layer)
    writer.add_context_length(shape.n_ctx)
    writer.add_embedding_length(shape.n_embd)
    writer.add_feed_forward_length(shape.n_ff)
    writer.add_layer_norm_rms_eps(1e-5)
    if shape.architecture in ("mamba", "jamba"):
        writer.add_ssm_conv_kernel(N_CONV)
        writer.add_ssm_inner_size(2 * shape.n_embd)
        writer.add_ssm_state_size(shape.n_state)
        writer.add_ssm_time_step_rank(N_RANK)
    writer.add_head_count(shape.n_head if any(shape.heads_kv) else 0)
    writer.add_head_count_kv(shape.heads_kv)
    if all(shape.heads_kv):
        writer.add_key_length(shape.head_size)
        writer.add_value_length(shape.head_size)
        writer.add_rope_dimension_count(shape.head_size)
    if shape.sliding_window:
        writer.add_sliding_window(shape.sliding_window)
    if shape.n_expert:
        writer.add_expert_count(shape.n_expert)
        writer.add_expert_used_count(shape.n_expert_used)


@dataclass(frozen=True, slots=True)
class _Tensor:
    name: str
    values: FloatArray
    format: Format


class _Weights:
    """Draws the tensors of a model, always in the same order."""

    def __init__(self, shape: Shape, rng: np.random.Generator) -> None:
        self._shape = shape
        self._rng = rng

    def tensors(self) -> Iterator[_Tensor]:
        shape = self._shape
        # Gemma multiplies embeddings by sqrt(n_embd); every architecture should start with entries of about 1.
        scale = shape.n_embd**-0.5 if shape.architecture == "gemma3" else 1.0
        yield self._drawn("token_embd.weight", (N_VOCAB, shape.n_embd), scale)
        yield self._ones("output_norm.weight", shape.n_embd)
        output = self._drawn("output.weight", (N_VOCAB, shape.n_embd), shape.sharpness * shape.n_embd**-0.5)
        output.values[BOS : PAD + 1] *= shape.end_strength
        yield output
        for layer in range(shape.n_layer):
            for tensor in self._layer(layer):
                yield replace(tensor, name=f"blk.{layer}.{tensor.name}")

    def _layer(self, layer: int) -> Iterator[_Tensor]:
        shape = self._shape
        yield self._ones("attn_norm.weight", shape.n_embd)
        yield from self._attention() if shape.heads_kv[layer] else self._state_space()
        if shape.architecture == "mamba":
            return
        yield self._ones("ffn_norm.weight", shape.n_embd)
        yield from self._feed_forward()
        if shape.architecture == "gemma3":
            yield self._ones("post_attention_norm.weight", shape.n_embd)
            yield self._ones("post_ffw_norm.weight", shape.n_embd)
            yield self._ones("attn_q_norm.weight", shape.head_size, shape.attention_gain)
            yield self._ones("attn_k_norm.weight", shape.head_size)

    def _attention(self) -> Iterator[_Tensor]:
        shape = self._shape
        n_query, n_key = shape.n_head * shape.head_size, shape.n_head_kv * shape.head_size
        yield self._matrix("attn_q", n_query, shape.n_embd, shape.attention_gain)
        yield self._matrix("attn_k", n_key, shape.n_embd)
        yield self._matrix("attn_v", n_key, shape.n_embd)
        yield self._matrix("attn_output", shape.n_embd, n_query)

    def _feed_forward(self) -> Iterator[_Tensor]:
        n_expert, n_ff, n_embd = self._shape.n_expert, self._shape.n_ff, self._shape.n_embd
        if n_expert:
            yield replace(self._matrix("ffn_gate_inp", n_expert, n_embd), format=Format.F32)
        suffix, copies = ("_exps.weight", (n_expert,)) if n_expert else (".weight", ())
        yield self._drawn(f"ffn_gate{suffix}", (*copies, n_ff, n_embd), n_embd**-0.5)
        yield self._drawn(f"ffn_up{suffix}", (*copies, n_ff, n_embd), n_embd**-0.5)
        yield self._drawn(f"ffn_down{suffix}", (*copies, n_embd, n_ff), n_ff**-0.5)

    def _state_space(self) -> Iterator[_Tensor]:
        shape = self._shape
        n_inner = 2 * shape.n_embd
        yield self._matrix("ssm_in", 2 * n_inner, shape.n_embd)
        yield self._plain("ssm_conv1d.weight", self._rng.normal(0, N_CONV**-0.5, (n_inner, N_CONV)))
        yield self._plain("ssm_conv1d.bias", np.zeros(n_inner))
        yield self._matrix("ssm_x", N_RANK + 2 * shape.n_state, n_inner)
        # A step of 0.01 .. 0.3 (its inverse softplus) makes states that forget within 3 to 100 tokens.
        steps = np.exp(self._rng.uniform(np.log(0.01), np.log(0.3), n_inner))
        yield replace(self._matrix("ssm_dt", n_inner, N_RANK), format=Format.F32)
        yield self._plain("ssm_dt.bias", np.log(np.expm1(steps)))
        yield self._plain("ssm_a", np.tile(-np.arange(1, shape.n_state + 1), (n_inner, 1)))
        yield self._plain("ssm_d", np.ones(n_inner))
        yield self._matrix("ssm_out", shape.n_embd, n_inner)
        if shape.architecture == "jamba":
            yield self._ones("ssm_dt_norm.weight", N_RANK)
            yield self._ones("ssm_b_norm.weight", shape.n_state)
            yield self._ones("ssm_c_norm.weight", shape.n_state)

    def _matrix(self, name: str, n_out: int, n_in: int, gain: float = 1.0) -> _Tensor:
        """Rows that keep the size of their input, times `gain`."""
        return self._drawn(f"{name}.weight", (n_out, n_in), gain * n_in**-0.5)

    def _drawn(self, name: str, size: tuple[int, ...], deviation: float) -> _Tensor:
        return _Tensor(name, self._rng.normal(0, deviation, size).astype(np.float32), self._shape.weights)

    def _ones(self, name: str, n: int, value: float = 1.0) -> _Tensor:
        return self._plain(name, np.full(n, value))

    def _plain(self, name: str, values: npt.NDArray[np.generic]) -> _Tensor:
        return _Tensor(name, values.astype(np.float32), Format.F32)


def _write_vocabulary(writer: gguf.GGUFWriter) -> None:
    merges = _learn_merges(N_VOCAB - 256 - len(SPECIALS))
    pieces = [_letters(bytes([byte])) for byte in range(256)]
    merged = ["".join(pair) for pair in merges]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*pieces, *SPECIALS, *merged])
    # 1: an ordinary token, 3: a control token.
    writer.add_token_types([1] * 256 + [3] * len(SPECIALS) + [1] * len(merged))
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(EOS)
    writer.add_eot_token_id(TURN_END)
    writer.add_pad_token_id(PAD)
    writer.add_add_bos_token(True)
    writer.add_chat_template(CHAT_TEMPLATE)


def _letters(data: bytes) -> str:
    """GPT-2's spelling of bytes: printable ones stand for themselves, the others for letters from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in printable]
    return "".join(chr(byte) if byte in printable else chr(0x100 + hidden.index(byte)) for byte in data)


def _learn_merges(n_merges: int) -> list[tuple[str, str]]:
    """Byte-pair encoding of the sample: join the commonest pair (ties: the first in the alphabet), again and again."""
    words = [list(_letters(f" {word}".encode())) for word in SAMPLE_TEXT.split()]
    merges: list[tuple[str, str]] = []
    while len(merges) < n_merges:
        counts = Counter(pair for word in words for pair in pairwise(word))
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        merges.append(best)
        words = [_joined(word, best) for word in words]
    return merges


def _joined(word: list[str], pair: tuple[str, str]) -> list[str]:
    joined: list[str] = []
    for part in word:
        if joined and (joined[-1], part) == pair:
            joined[-1] += part
        else:
            joined.append(part)
    return joined


@click.command()
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--kind", type=click.Choice(Kind, case_sensitive=False), default=Kind.LLAMA, show_default=True)
@click.option("--weights", type=click.Choice(Format, case_sensitive=False), default=Format.F32, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
def main(path: Path, kind: Kind, weights: Format, seed: int) -> None:
    """Write a tiny random GGUF model to PATH."""
    write_toy_model(path, kind, seed, replace(SHAPES[kind], weights=weights))


if __name__ == "__main__":
    main()
