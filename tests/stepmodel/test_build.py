from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgespec.errors import BadInput
from edgespec.stepfile import RopeTable, StepFile
from edgespec.stepmodel.build import BuildOptions, Stage, build_step
from edgespec.stepmodel.define import define
from edgespec.stepmodel.gguf_file import read_weights
from tests.stepmodel.conftest import ToyPath, ToyWeights
from tests.stepmodel.driving import Driver, Emitted
from tests.stepmodel.toy_files import HEAD_DIM, N_HEADS, N_KV_HEADS, N_VOCAB, WIDTH


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_facts_of_a_whole_model(tmp_path: Path, toy_path: ToyPath, toy_weights: ToyWeights) -> None:
    options = BuildOptions(n_ranked=4, rows=(1, 2), n_ctx=256, source_fingerprint="abc", notes="made for a test")
    source = toy_path("llama", "Q8_0")
    weights = toy_weights("llama", "Q8_0")
    assert build_step(source, tmp_path, options) == StepFile(
        architecture="llama",
        source_name=weights.name,
        source_fingerprint="abc",
        layers=(0, 1, 2),
        n_vocab=N_VOCAB,
        width=WIDTH,
        n_heads=N_HEADS,
        n_kv_heads=N_KV_HEADS,
        head_dim=HEAD_DIM,
        n_blocks=3,
        embedding_scale=1.0,
        rope=(RopeTable(10_000.0, HEAD_DIM, 1.0),),
        n_ranked=4,
        rows=(1, 2),
        n_ctx=256,
        token_hash=weights.vocabulary.token_hash,
        notes="made for a test",
        sliding_window=0,
    )
    assert names(tmp_path) == {"model.onnx", "embedding.npy"}


def test_files_run_as_the_weights_do(tmp_path: Path, toy_path: ToyPath, toy_weights: ToyWeights) -> None:
    ids = (400, 7, 8, 9, 300)
    facts = build_step(toy_path("gemma3", "F32"), tmp_path, BuildOptions((0, 5), ids, n_ranked=2, n_ctx=1 << 20))
    assert (facts.layers, facts.n_blocks, facts.sliding_window, facts.n_ctx) == ((0, 5), 2, 32, 4096)
    assert (facts.embedding_scale, len(facts.rope)) == (8.0, 2)
    weights = toy_weights("gemma3", "F32")
    table = np.load(tmp_path / "embedding.npy", mmap_mode="r")
    assert (table == weights.embedding(0, N_VOCAB).astype(np.float16)).all()
    head_ids = np.load(tmp_path / "head_ids.npy")
    assert head_ids.dtype == np.int32
    assert head_ids.tolist() == [7, 8, 9, 300, 400]
    inputs = Emitted(tmp_path / "model.onnx").inputs
    assert {"past_k_1", "mask_local"} < set(inputs)
    assert "past_k_2" not in inputs


def test_layers_are_those_of_the_weights(tmp_path: Path, toy_path: ToyPath) -> None:
    source = toy_path("llama", "F32")
    build_step(source, tmp_path, BuildOptions((0, 2), n_ranked=3))
    cut = read_weights(source, (0, 2))
    found = Driver(cut, Emitted(tmp_path / "model.onnx").run).run([5, 6, 7])
    wanted = Driver(cut, Emitted.of(define(cut, 3)).run).run([5, 6, 7])
    assert (found.logits == wanted.logits).all()


def test_progress_goes_through_all_stages(tmp_path: Path, toy_path: ToyPath) -> None:
    told: list[tuple[Stage, float]] = []
    build_step(toy_path("llama", "F32"), tmp_path, BuildOptions(), lambda stage, done: told.append((stage, done)))
    assert list(dict.fromkeys(stage for stage, _ in told)) == list(Stage)
    for stage in Stage:
        done = [share for one, share in told if one is stage]
        assert done == sorted(done)
        assert done[0] == 0
        assert done[-1] <= 1


@pytest.mark.parametrize("stage", list(Stage))
def test_nothing_half_written_is_left_when_it_is_broken_off(stage: Stage, tmp_path: Path, toy_path: ToyPath) -> None:
    def broken_off(now: Stage, _done: float) -> None:
        if now is stage:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_step(toy_path("llama", "F32"), tmp_path, BuildOptions(), broken_off)
    assert names(tmp_path) == ({"model.onnx"} if stage is Stage.EMBEDDING else set())


@pytest.mark.parametrize("ids", [(), (-1, 3), (3, N_VOCAB)])
def test_ids_that_no_token_has(ids: tuple[int, ...], tmp_path: Path, toy_path: ToyPath) -> None:
    with pytest.raises(BadInput, match=f"ids are 0 to {N_VOCAB - 1}"):
        build_step(toy_path("llama", "F32"), tmp_path, BuildOptions(head_ids=ids))
    assert names(tmp_path) == set()
