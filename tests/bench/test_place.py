from __future__ import annotations

from pathlib import Path

import pytest

import edgespec
from edgespec.backend import machine
from edgespec.backend.settings import FlashAttention, LlamaSettings
from edgespec.bench.place import code_fingerprint, load_now, place


def test_the_line_names_everything_that_decides_a_figure() -> None:
    settings = LlamaSettings(n_ctx=512, n_threads=2, flash_attention=FlashAttention.ON, n_gpu_layers=3)
    line = place("a model", "0.3.36|AVX = 1|file:1:2", settings, 1.25).line()
    assert line.startswith(
        f"{machine.describe()}, load 1.2 · a model · 2 threads, flash attention on, extra buffers on"
    )
    assert "KV f16, 512 tokens of context, 3 layers on the GPU · library 0.3.36 build " in line
    other = place("a model", "0.3.36|AVX = 0|file:1:2", settings, 1.25).line()
    assert other != line  # builds of one version are told apart
    assert "1 thread," in place("m", "1|", LlamaSettings(), 0.0).line()


def test_load_is_a_number_of_processes() -> None:
    assert load_now() >= 0.0


def test_the_code_is_told_by_its_version_and_a_digest() -> None:
    version, _, digest = code_fingerprint().partition("|")
    assert version == edgespec.__version__
    assert len(digest) == 16
    assert code_fingerprint() == code_fingerprint()


def test_changed_code_is_other_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "__init__.py").write_text("")
    (tmp_path / "deep" / "a.py").write_text("x = 1")
    monkeypatch.setattr(edgespec, "__file__", str(tmp_path / "__init__.py"))
    before = code_fingerprint()
    (tmp_path / "deep" / "a.py").write_text("x = 2")
    changed = code_fingerprint()
    (tmp_path / "deep" / "a.py").rename(tmp_path / "deep" / "b.py")
    assert len({before, changed, code_fingerprint()}) == 3
