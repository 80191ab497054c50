"""The command: each of its three ways on a toy model, and what it leaves with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tools import soak, soak_gap, soak_mixed
from tools.soak_gap import Gap
from tools.soak_server import Served


def invoke(toy: Path, *more: str) -> Result:
    arguments = ["--model", str(toy), "--threads", "1", "--ctx-size", "1024", "--max-tokens", "8", *more]
    return CliRunner().invoke(soak.main, arguments)


def test_a_soak(toy: Path, tmp_path: Path) -> None:
    out = tmp_path / "soak.json"
    result = invoke(toy, "--n", "12", "--clients", "4", "--json", str(out))
    assert result.exit_code == 0, result.output
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["12", "first", "memory:", "left"]
    written = json.loads(out.read_text(encoding="utf-8"))
    assert (written["way"], len(written["outcomes"]), written["n_open"]) == ("mixed", 12, 0)


def test_what_is_left_over_is_exit_code_1(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak_mixed, "settled", lambda _: 3)
    result = invoke(toy, "--n", "4", "--clients", "1")
    assert result.exit_code == 1
    assert "3 requests are still open" in result.stdout


def test_four_at_once_against_one_after_another(toy: Path, tmp_path: Path) -> None:
    out = tmp_path / "parallel.json"
    result = invoke(toy, "--parallel", "--repeats", "1", "--json", str(out))
    written = json.loads(out.read_text(encoding="utf-8"))
    assert (written["way"], len(written["arms"])) == ("parallel", 4)
    assert result.exit_code == (0 if written["ratio"] >= 1.0 else 1)


@pytest.mark.parametrize(("seconds", "exit_code"), [(0.03, 0), (0.031, 1)])
def test_the_longest_standstill_against_a_chunk_and_a_round(
    seconds: float, exit_code: int, toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(running: Served, n_prompt: int) -> Gap:
        assert running.n_open() == 0
        return Gap(n_prompt, 5, 5, seconds, 0.03, 0.02, 0.01)

    monkeypatch.setattr(soak_gap, "measure", measured)
    result = invoke(toy, "--gap", "--prompt-tokens", "300")
    assert result.exit_code == exit_code, result.output
    assert "300 tokens read in 5 chunks" in result.stdout
    assert ("stood still longer" in result.stdout) == bool(exit_code)
