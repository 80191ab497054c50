"""Every spec opens what it speaks of, with all of its settings."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from edgespec.backend.llama.step import LlamaStep, draft_settings, open_step
from edgespec.backend.onnx import OnnxSettings, OnnxStep
from edgespec.backend.remote_spec import build, llama_spec, onnx_spec
from edgespec.errors import BadInput
from tests.backend.onnx.toy_graph import Toy
from tests.backend.remote_toys import TableStep
from tools.make_toy_model import write_toy_model


def test_a_gguf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_toy_model(tmp_path / "a: 'toy'.gguf", seed=1)
    settings = draft_settings(300, 1, max_rows=5)
    monkeypatch.chdir(tmp_path)
    spec = llama_spec(Path(path.name), settings, 400, "small")
    monkeypatch.chdir("/")
    tokens = np.array([1, 2, 3], np.int32)
    with closing(build(spec)) as step, closing(open_step(path, settings, n_vocab=400, name="small")) as twin:
        assert isinstance(step, LlamaStep)
        assert (step.name, step.limits) == (twin.name, twin.limits)
        assert (step.limits.n_ctx, step.limits.n_vocab, step.limits.max_rows) == (300, 400, 5)
        assert np.array_equal(step.run(tokens, 0).logits, twin.run(tokens, 0).logits)


def test_a_step_model(tmp_path: Path) -> None:
    folder = Toy().write(tmp_path / "toy.step")
    with closing(build(onnx_spec(folder, OnnxSettings(1, n_ctx=16)))) as step:
        assert isinstance(step, OnnxStep)
        assert step.limits.n_ctx == 16
    with pytest.raises(BadInput, match="provider 'Strange'"):
        build(onnx_spec(folder, OnnxSettings(1, "Strange")))


def test_other_specs() -> None:
    assert isinstance(build("python:tests.backend.remote_toys:table:"), TableStep)
    for spec in ("", "coreml", "python:tests.backend.remote_toys", "pickle:x:y:z"):
        with pytest.raises(ValueError, match="no step model is called"):
            build(spec)
