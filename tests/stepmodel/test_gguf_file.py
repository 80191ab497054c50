from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import gguf
import numpy as np
import pytest

from edgespec.errors import CorruptModel, EdgeSpecError, MissingExtra, ModelNotFound, UnsupportedModel
from edgespec.stepmodel.gguf_file import ARCHITECTURES, count_blocks, half_split_rows, read_weights
from edgespec.stepmodel.matrix import QuantMatrix, dequantised
from edgespec.stepmodel.weights import Activation, Rope
from tests.stepmodel.toy_files import (
    HEAD_DIM,
    N_HEADS,
    N_KV_HEADS,
    N_VOCAB,
    WIDTH,
    Variation,
    write_model,
    write_variation,
)
from tools.make_toy_model import BOS, PAD


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_shape_of_every_architecture(architecture: str, tmp_path: Path) -> None:
    path = write_model(tmp_path / "toy.gguf", architecture)
    weights = read_weights(path)
    assert (weights.architecture, weights.width, weights.head_dim) == (architecture, WIDTH, HEAD_DIM)
    assert (weights.n_heads, weights.n_kv_heads) == (N_HEADS, N_KV_HEADS)
    assert weights.vocabulary.n_vocab == weights.head.n_out == N_VOCAB
    assert len(weights.blocks) == count_blocks(path)
    assert weights.embedding(3, 5).shape == (2, WIDTH)
    assert (weights.blocks[0].query_bias is not None) == (architecture == "qwen2")
    assert (weights.blocks[0].query_norm is not None) == (architecture in ("qwen3", "gemma3"))


def test_gemma_has_windows_two_rotary_tables_and_norms_behind(tmp_path: Path) -> None:
    weights = read_weights(write_model(tmp_path / "toy.gguf", "gemma3"))
    assert [block.is_local for block in weights.blocks] == [True] * 5 + [False]
    assert weights.ropes == (Rope(10_000.0, HEAD_DIM), Rope(10_000.0, HEAD_DIM))
    assert (weights.window, weights.activation, weights.embedding_scale) == (32, Activation.GELU, 8.0)
    assert weights.blocks[0].post_attention_norm is not None
    assert weights.blocks[0].post_ffn_norm is not None


def test_query_rows_are_unpaired_for_llama_alone(tmp_path: Path) -> None:
    for architecture in ("llama", "qwen2"):
        path = write_model(tmp_path / f"{architecture}.gguf", architecture)
        stored = {tensor.name: tensor.data for tensor in gguf.GGUFReader(path).tensors}["blk.0.attn_q.weight"]
        found = dequantised(read_weights(path).blocks[0].query)
        rows = half_split_rows(N_HEADS, HEAD_DIM) if architecture == "llama" else np.arange(N_HEADS * HEAD_DIM)
        assert (found == stored[rows]).all()


def test_half_split_order() -> None:
    assert half_split_rows(2, 6).tolist() == [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]


def test_quantised_blocks_stay_as_they_are(tmp_path: Path) -> None:
    query = read_weights(write_model(tmp_path / "toy.gguf", stored="Q4_1")).blocks[1].query
    assert isinstance(query, QuantMatrix)
    assert query.bits == 4
    assert query.offsets is not None


def test_some_layers_keep_their_numbers_and_report_progress(tmp_path: Path) -> None:
    path = write_model(tmp_path / "toy.gguf")
    told: list[tuple[int, int]] = []
    weights = read_weights(path, (2, 0), lambda done, n: told.append((done, n)))
    assert [block.number for block in weights.blocks] == [0, 2]
    assert (weights.blocks[1].attention_norm == read_weights(path).blocks[2].attention_norm).all()
    assert told == [(0, 2), (1, 2)]


def test_vocabulary_is_told_by_its_spellings(tmp_path: Path) -> None:
    path = write_model(tmp_path / "toy.gguf")
    pieces = gguf.GGUFReader(path).get_field("tokenizer.ggml.tokens").contents()
    spelt = b"".join(len(piece.encode()).to_bytes(4, "little") + piece.encode() for piece in pieces)
    vocabulary = read_weights(path).vocabulary
    assert vocabulary.token_hash == hashlib.sha256(spelt).hexdigest()
    assert vocabulary.control_ids == tuple(range(BOS, PAD + 1))


def test_tied_head_is_the_token_table(tmp_path: Path) -> None:
    weights = read_weights(write_variation(tmp_path / "toy.gguf", Variation(left_out=("output.weight",))))
    assert (dequantised(weights.head) == weights.embedding(0, N_VOCAB)).all()


def test_linear_rotary_scaling_is_carried(tmp_path: Path) -> None:
    scaling: dict[str, str | float | int] = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    weights = read_weights(write_variation(tmp_path / "toy.gguf", Variation(settings=scaling)))
    assert weights.ropes == (Rope(10_000.0, HEAD_DIM, 4.0),)


VECTOR = np.ones(WIDTH, dtype=np.float32)
REFUSED = {
    "its architecture is 'phi3'": Variation("phi3"),
    "its rotary scaling is of the kind 'yarn'": Variation(settings={"llama.rope.scaling.type": "yarn"}),
    "its rotary scaling is of the kind 'llama3'": Variation(extra={"rope_freqs.weight": VECTOR[:8]}),
    "it turns 8 of a head's 16 dimensions": Variation(settings={"llama.rope.dimension_count": 8}),
    "it is a mixture of experts": Variation(settings={"llama.expert_count": 4}),
    "it has final_logit_softcapping": Variation(settings={"llama.final_logit_softcapping": 30.0}),
    "it has a tensor 'blk.1.attn_output.bias'": Variation(extra={"blk.1.attn_output.bias": VECTOR}),
    "it has no tensor 'blk.2.ffn_up.weight'": Variation(left_out=("blk.2.ffn_up.weight",)),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_the_graph_does_not_compute_is_refused_by_name(why: str, tmp_path: Path) -> None:
    path = write_variation(tmp_path / "toy.gguf", REFUSED[why])
    with pytest.raises(UnsupportedModel) as caught:
        read_weights(path)
    assert why in caught.value.why
    assert str(path) in caught.value.what
    assert "llama.cpp" in caught.value.remedy


@pytest.mark.parametrize("layers", [(), (0, 3), (-1,)])
def test_layers_that_are_not_there(layers: tuple[int, ...], tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match="its layers are 0 to 2"):
        read_weights(write_model(tmp_path / "toy.gguf"), layers)


@pytest.mark.parametrize(("data", "kind"), [(None, ModelNotFound), (b"no model at all, but long", CorruptModel)])
def test_no_model_in_the_file(data: bytes | None, kind: type[EdgeSpecError], tmp_path: Path) -> None:
    path = tmp_path / "toy.gguf"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(kind, match=r"toy\.gguf"):
        read_weights(path)


def test_truncated_file(tmp_path: Path) -> None:
    path = write_model(tmp_path / "toy.gguf")
    path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(CorruptModel):
        read_weights(path)


def test_missing_reader_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_model(tmp_path / "toy.gguf")
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(MissingExtra, match="'gguf' is not installed"):
        read_weights(path)
