"""Where a draft runs, how long its calls may take, and that a step model's process drafts as the model itself would."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgespec.backend.llama.step import LlamaStep, draft_settings
from edgespec.backend.onnx import OnnxSettings, OnnxStep
from edgespec.backend.remote import Patience, RemoteStep
from edgespec.choice import DraftChoice
from edgespec.engine import Engine, EngineOptions, GenerateOptions
from edgespec.engine.pair import second
from edgespec.engine.pair.devices import CPU
from edgespec.engine.pair.second import Home, fitting_gguf, fitting_step, gguf_home, patience
from edgespec.errors import MissingExtra
from edgespec.events import Completion
from edgespec.library.drafts import CHILD_FIXED_BYTES, STEP_FIXED_BYTES, DraftNeed
from edgespec.library.header import read_header
from edgespec.stepfile import write_step
from edgespec.stepmodel.build import BuildOptions, build_step
from edgespec.tune.pair import StepTimes
from tools.make_toy_model import SHAPES, Format, Kind, write_toy_model


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target and itself as a step model."""
    folder = tmp_path_factory.mktemp("models")
    target = write_toy_model(folder / "target.gguf", seed=1, shape=replace(SHAPES[Kind.LLAMA], weights=Format.F32))
    options = BuildOptions(n_ranked=8)
    write_step(folder / "same.step", lambda path: build_step(target, path, options))
    return folder


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("EDGESPEC_OFFLINE", "1")


@pytest.fixture
def needs(monkeypatch: pytest.MonkeyPatch) -> list[DraftNeed]:
    """What was asked of the memory."""
    found: list[DraftNeed] = []
    fitted = second.fitted

    def asked(need: DraftNeed, notify: second.Notify, device: str = CPU) -> DraftNeed:
        found.append(need)
        return fitted(need, notify, device)

    monkeypatch.setattr(second, "fitted", asked)
    return found


def test_a_gguf_on_the_cpu_runs_here_and_one_on_a_gpu_does_not(models: Path) -> None:
    assert gguf_home(draft_settings(256, 1)) is Home.HERE
    assert gguf_home(draft_settings(256, 1, n_gpu_layers=-1)) is Home.CHILD
    target = models / "target.gguf"
    found = fitting_gguf(target, "twin", read_header(target), 512, "library", lambda _notice: None)
    assert found.home is Home.HERE
    with closing(found.make(1)) as step:
        assert isinstance(step, LlamaStep)


def test_a_gguf_on_a_gpu_has_a_process_that_is_counted(
    models: Path, needs: list[DraftNeed], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here without a GPU, whose layers stay on the CPU then: what counts is where the process comes from."""
    target = models / "target.gguf"
    for home in Home:
        monkeypatch.setattr(second, "gguf_home", lambda _settings, home=home: home)
        found = fitting_gguf(target, "twin", read_header(target), 512, "library", lambda _notice: None)
        assert found.home is home
    with closing(found.make(1)) as step:
        assert isinstance(step, RemoteStep)
        assert step.limits.n_ctx == found.n_ctx == 512
        assert step.limits.n_vocab == read_header(target).n_vocab
        assert step.name == "twin"
    here, child = needs
    assert child.total_bytes - here.total_bytes == CHILD_FIXED_BYTES


def test_a_step_model_has_a_process_that_does_what_it_does_here(models: Path, needs: list[DraftNeed]) -> None:
    folder = models / "same.step"
    found = fitting_step(folder, read_header(models / "target.gguf"), 300, lambda _notice: None)
    assert found.home is Home.CHILD
    assert needs[0].need.buffers_bytes == STEP_FIXED_BYTES + CHILD_FIXED_BYTES
    tokens = np.arange(1, 9, dtype=np.int32)
    with closing(found.make(1)) as step, closing(OnnxStep.open(folder, OnnxSettings(1, n_ctx=found.n_ctx))) as twin:
        assert isinstance(step, RemoteStep)
        assert (step.limits, step.name) == (twin.limits, twin.name)
        for one in (step, twin):
            one.read(tokens, 0)
        ours, theirs = step.run(tokens[:1], 8), twin.run(tokens[:1], 8)
        assert np.array_equal(ours.ids, theirs.ids)
        assert np.array_equal(ours.logits, theirs.logits)


def test_without_onnx_runtime_it_is_said_how_to_get_it(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = fitting_step(models / "same.step", read_header(models / "target.gguf"), 300, lambda _notice: None)
    monkeypatch.setattr(second, "find_spec", lambda _name: None)
    with pytest.raises(MissingExtra, match="pip install onnxruntime"):
        found.make(1)


def test_patience_follows_what_was_measured() -> None:
    quick = StepTimes(1, ((64, 0.01), (512, 0.02)), 0.001, ((1, 0.01), (8, 0.03)))
    slow = replace(quick, row_seconds=((8, 0.5),), read_seconds=0.1)
    assert patience(quick) == Patience(2.0, 0.02)
    assert patience(slow) == Patience(10.0, 2.0)
    assert patience(replace(slow, row_seconds=())) == Patience(2.0, 2.0)


def test_answers_drafted_by_a_step_model_are_plain_ones(models: Path) -> None:
    asked = GenerateOptions(max_tokens=40, exact=True, draft=DraftChoice.MODEL)

    def told(engine: Engine, options: GenerateOptions) -> Completion:
        return engine.complete("the small river runs under the old bridge", options).completion()

    options = EngineOptions(ctx_size=256, threads=1, draft_model=str(models / "same.step"))
    with Engine.open(models / "target.gguf", options) as engine:
        plain = told(engine, replace(asked, draft=DraftChoice.OFF)).token_ids
        n_accepted = 0
        for _ in range(2000):  # until its process has loaded it
            got = told(engine, asked)
            assert got.token_ids == plain
            n_accepted = got.timings.draft_n_accepted
            if n_accepted:
                break
        assert n_accepted > 0
