"""`edgespec export` of a toy model."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from edgespec.cli.export import export
from edgespec.cli.main import Commands
from edgespec.stepfile import read_step
from tools.make_toy_model import N_VOCAB, Kind, write_toy_model

Export = Callable[..., Result]
KEYS = {"path", "bytes", "top1_agreement", "mean_tv", "max_logit_error", "step_seconds", "target_step_seconds"}


@pytest.fixture
def export_() -> Export:
    group = Commands("edgespec")
    group.add_command(export)

    def run(*arguments: object) -> Result:
        result = CliRunner().invoke(group, ["export", *map(str, arguments)])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


def parsed(result: Result) -> dict[str, Any]:
    """The JSON object, which must be all there is on stdout."""
    assert result.exit_code == 0, result.stderr
    (line,) = result.stdout.splitlines()
    found = json.loads(line)
    assert isinstance(found, dict)
    return found


def refusal(result: Result, exit_code: int) -> str:
    assert (result.exit_code, result.stdout) == (exit_code, "")
    (line,) = result.stderr.splitlines()
    return line


def test_without_verify_nothing_is_measured(export_: Export, toy: Path, tmp_path: Path) -> None:
    out = tmp_path / "toy.step"
    found = parsed(export_(toy, "--to", "onnx", "--out", out, "--json"))
    assert set(found) > KEYS
    assert found["path"] == str(out)
    assert found["bytes"] == read_step(out).n_bytes
    assert found["layers"] == [0, 1, 2]
    assert all(found[key] is None for key in KEYS - {"path", "bytes"})


def test_verify(export_: Export, toy: Path, tmp_path: Path) -> None:
    out = tmp_path / "toy.step"
    found = parsed(export_(toy, "--to", "onnx", "--out", out, "--verify", "--positions", 100, "--json"))
    assert found["positions"] == 100
    assert found["top1_agreement"] > 0.9
    assert found["mean_tv"] < 0.05
    assert found["step_seconds"] > 0
    assert found["target_step_seconds"] > 0


def test_in_words(export_: Export, toy: Path, tmp_path: Path) -> None:
    out = tmp_path / "toy.step"
    result = export_(toy, "--to", "onnx", "--out", out, "--verify", "--positions", 40, "--vocabulary", 100)
    assert result.exit_code == 0, result.stderr
    head, agreement, seconds = result.stdout.splitlines()
    assert head == f"{out}: {read_step(out).n_bytes / 1e6:.0f} MB, 3 layers, 100 of {N_VOCAB} tokens"
    assert agreement.startswith("on 40 tokens of the model's own answers: the same first choice on ")
    assert seconds.startswith("one token takes ")
    assert seconds.endswith("x), one thread each")


def test_chosen_layers_in_words(export_: Export, toy: Path, tmp_path: Path) -> None:
    result = export_(toy, "--to", "onnx", "--out", tmp_path / "toy.step", "--layers", "auto")
    assert result.exit_code == 0, result.stderr
    head, layers = result.stdout.splitlines()
    assert " layers" in head
    assert layers.startswith(("layers ", "every layer is kept"))


def test_a_default_place_for_each_wish(
    export_: Export, toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path))
    steps = tmp_path / "data" / "steps"
    assert parsed(export_(toy, "--to", "onnx", "--json"))["path"] == str(steps / "toy.step")
    cut = parsed(export_(toy, "--to", "onnx", "--layers", "0,2", "--json"))
    assert cut["path"] == str(steps / "toy-layers_0_2.step")
    assert cut["layers"] == [0, 2]
    again = refusal(export_(toy, "--to", "onnx"), 13)
    assert again == f"Error: cannot write {steps / 'toy.step'}: it exists already; remove it, or give another --out."


def test_refusals(export_: Export, toy: Path, tmp_path: Path) -> None:
    mamba = write_toy_model(tmp_path / "mamba.gguf", Kind.MAMBA)
    out = ("--to", "onnx", "--out", tmp_path / "out.step")
    assert "its architecture is 'mamba', and step models know llama" in refusal(export_(mamba, *out), 5)
    (tmp_path / "text.gguf").write_text("no GGUF at all, only some text")
    assert "text.gguf" in refusal(export_(tmp_path / "text.gguf", *out), 4)
    assert "nowhere.gguf" in refusal(export_(tmp_path / "nowhere.gguf", *out), 3)
    assert "give all, auto, or a list such as 0-9,12,20-29" in refusal(export_(toy, *out, "--layers", "some"), 13)
    assert "layer 7: the model has 0 to 2" in refusal(export_(toy, *out, "--layers", "7"), 13)
    assert "prompts.jsonl" in refusal(export_(toy, *out, "--prompts", tmp_path / "prompts.jsonl"), 13)
    assert not (tmp_path / "out.step").exists()


@pytest.mark.parametrize("package", ["gguf", "onnx"])
def test_without_the_extra(
    export_: Export, toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    line = refusal(export_(toy, "--to", "onnx", "--out", tmp_path / "toy.step"), 14)
    assert "pip install gguf onnx onnxruntime" in line


def test_verify_without_the_runtime(
    export_: Export, toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    line = refusal(export_(toy, "--to", "onnx", "--out", tmp_path / "toy.step", "--verify"), 14)
    assert "pip install onnxruntime" in line


@pytest.mark.parametrize(
    "arguments",
    [[], ["--to", "coreml"], ["--to", "onnx", "--vocabulary", 3], ["--to", "onnx", "--positions", 0]],
    ids=str,
)
def test_wrong_usage(export_: Export, toy: Path, arguments: list[object]) -> None:
    assert export_(toy, *arguments).exit_code == 2
