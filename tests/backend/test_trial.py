"""The trial itself: it runs what an answer would run, and ends with the right code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgespec.backend import trial
from edgespec.backend.llama.target import LlamaTarget
from edgespec.backend.settings import FlashAttention, LlamaSettings
from edgespec.spec.ports import IntArray, Rows, VerifyRequest
from tests.backend.conftest import SETTINGS, Toys
from tools.make_toy_model import Kind


def leave(monkeypatch: pytest.MonkeyPatch, path: Path, settings: str) -> int:
    monkeypatch.setattr(trial, "die_quietly", lambda: None)  # this process may leave core files
    monkeypatch.setattr("sys.argv", ["trial", str(path), settings])
    return trial.main()


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize(
    "settings",
    [SETTINGS, SETTINGS.windowed(), LlamaSettings(n_ctx=64, max_rows=1, max_leaves=1, prefill_chunk=8)],
    ids=["usual", "windowed", "least"],
)
def test_every_kind_of_model_passes(
    kind: Kind, settings: LlamaSettings, toys: Toys, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert leave(monkeypatch, toys.path(kind), settings.to_json()) == 0


def test_it_runs_every_width_that_an_answer_runs(toys: Toys, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole prompt chunk, one row, the widest chain, the broadest tree."""
    passes: list[str] = []
    extend, verify = LlamaTarget.extend, LlamaTarget.verify

    def watched_extend(self: LlamaTarget, sequence: int, tokens: IntArray) -> None:
        passes.append(f"{len(tokens)} read")
        extend(self, sequence, tokens)

    def watched_verify(self: LlamaTarget, requests: list[VerifyRequest], width: int) -> list[Rows]:
        passes.append(f"{width} rows, {requests[0].tree.parents.tolist().count(-1)} branches")
        return verify(self, requests, width)

    monkeypatch.setattr(LlamaTarget, "extend", watched_extend)
    monkeypatch.setattr(LlamaTarget, "verify", watched_verify)
    trial.run(toys.path(), SETTINGS)
    assert passes == ["256 read", "1 rows, 0 branches", "32 rows, 1 branches", "9 rows, 8 branches"]


@pytest.mark.parametrize(
    ("content", "said"), [(b"hello world" * 9, "invalid magic characters"), (b"", "failed to read magic")]
)
def test_an_error_that_the_parent_will_meet_has_a_code_of_its_own(
    content: bytes, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "fake.gguf"
    path.write_bytes(content)
    assert leave(monkeypatch, path, SETTINGS.to_json()) == trial.REFUSED
    assert said in capsys.readouterr().err


def test_a_defect_of_python_is_no_death(
    toys: Toys, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert leave(monkeypatch, toys.path(), "{}") == trial.REFUSED
    assert "KeyError" in capsys.readouterr().err
    bad = {**json.loads(SETTINGS.to_json()), "kv_type": "q8_0", "flash_attention": FlashAttention.OFF}
    assert leave(monkeypatch, toys.path(), json.dumps(bad)) == trial.REFUSED
    assert "flash attention" in capsys.readouterr().err
