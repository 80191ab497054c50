"""The fuzzer on a toy model: nothing is found where all is well, and a server that lies is found out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgespec.engine import EngineOptions, Extras
from edgespec.events import Piece, TokenScore
from edgespec.server import bodies
from edgespec.server.scores import ScoreWriter
from edgespec.spec.policy import FixedPolicy
from tools.fuzz_server import Outcome, fuzz, main, summary
from tools.soak_server import WatchedEngine, open_watched


@pytest.fixture
def engine(toy: Path) -> Iterator[WatchedEngine]:
    with open_watched(str(toy), EngineOptions(ctx_size=1024, threads=1), Extras(policy=FixedPolicy())) as opened:
        assert isinstance(opened, WatchedEngine)
        yield opened


def test_drafting_changes_no_answer_of_the_server(toy: Path, tmp_path: Path) -> None:
    out = tmp_path / "fuzz.json"
    arguments = ["--model", str(toy), "--threads", "1", "--n", "20", "--max-tokens", "32", "--json", str(out)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    counts = json.loads(out.read_text(encoding="utf-8"))["counts"]
    assert (counts["requests"], counts["refused"], counts["failed"]) == (20, 0, 0)
    assert counts["drafted"] > counts["accepted"] > 0
    assert counts["scored"] > 0
    assert "requests 20, refused 0" in result.stdout


def test_a_text_that_is_not_that_of_the_ids_is_found(engine: WatchedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def lying(self: bodies.Reply, pieces: list[Piece], include_usage: bool, scores: ScoreWriter | None = None) -> bytes:
        return honest(self, [replace(piece, text=piece.text[:-1]) for piece in pieces], include_usage, scores)

    honest = bodies.Reply.events
    monkeypatch.setattr(bodies.Reply, "events", lying)
    found = [line for one in fuzz(engine, 8, seed=1, most_tokens=12) for line in one.found]
    assert any("the ids spell" in line for line in found)


def test_log_probabilities_of_other_tokens_are_found(engine: WatchedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def lying(self: ScoreWriter, scores: list[TokenScore]) -> dict[str, object]:
        return honest(self, [replace(score, token_id=score.token_id ^ 1) for score in scores])

    honest = ScoreWriter.write
    monkeypatch.setattr(ScoreWriter, "write", lying)
    found = [line for one in fuzz(engine, 8, seed=1, most_tokens=8) for line in one.found]
    assert any("its log probability that of" in line for line in found)


def test_a_finding_is_exit_code_1(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lying(self: ScoreWriter, scores: list[TokenScore]) -> dict[str, object]:
        return honest(self, scores[:-1])

    honest = ScoreWriter.write
    monkeypatch.setattr(ScoreWriter, "write", lying)
    result = CliRunner().invoke(main, ["--model", str(toy), "--threads", "1", "--n", "8", "--max-tokens", "8"])
    assert result.exit_code == 1
    assert "log probabilities for" in result.stdout


def test_the_counts() -> None:
    one = Outcome(0, "lookup", 10, 8, 4, True, "", ())
    counts = summary([one, replace(one, refused="no", scored=False), replace(one, found=("exact: text",))])
    assert counts == {
        "requests": 3, "refused": 1, "scored": 2, "tokens": 30, "drafted": 24, "accepted": 12, "failed": 1,
    }  # fmt: skip
