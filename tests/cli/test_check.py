from __future__ import annotations

import json
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from edgespec.backend.llama.target import LlamaTarget
from edgespec.check.compare import Result as Verdict
from edgespec.cli.check import BUG, check
from edgespec.cli.main import Commands
from edgespec.spec.ports import Commit, IntArray

TEXTS = ("the river runs under the bridge and the river runs under the", "the old man and the old man and the")


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    path.write_text(
        "".join(json.dumps({"prompt": text, "category": "tales"}) + "\n" for text in TEXTS), encoding="utf-8"
    )
    return path


def invoke(*arguments: object) -> Result:
    """As `edgespec check`, its errors leaving as they do from the whole command."""
    group = Commands("edgespec", commands=[check])
    result = CliRunner().invoke(group, ["check", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def found(*arguments: object) -> dict[str, Any]:
    result = invoke("--json", *arguments)
    assert result.exit_code == 0, result.stderr
    assert len(result.stdout.splitlines()) == 1
    parsed = json.loads(result.stdout)
    assert isinstance(parsed, dict)
    return parsed


@pytest.mark.parametrize("more", [[], ["--exact"], ["--temperature", "0.8", "--top-p", "0.9", "--seed", "3"]])
def test_drafting_changes_nothing(toy: Path, prompts: Path, more: list[str]) -> None:
    got = found(toy, "--prompts", prompts, "--max-tokens", "40", "--draft", "lookup", *more)
    assert (got["prompts"], got["ties"] + got["identical"], got["bugs"]) == (2, 2, 0)
    assert got["exact"] is ("--exact" in more)
    if more[:1] == ["--temperature"]:
        assert (got["temperature"], got["top_p"], got["seed"]) == (0.8, 0.9, 3)
    else:
        assert any(one["n_drafted"] for one in got["comparisons"])


def test_the_text_says_what_was_compared(toy: Path, prompts: Path) -> None:
    result = invoke(toy, "--prompts", prompts, "--max-tokens", "30", "--draft", "lookup", "--exact")
    assert result.exit_code == 0
    assert "2 prompts, exact, greedy, draft lookup: 2 identical, 0 ties, 0 bugs" in result.stdout
    assert "each twice" in result.stderr


def test_without_a_file_the_built_in_prompts_are_asked(toy: Path) -> None:
    got = found(toy, "--max-tokens", "4", "--n", "3")
    assert got["prompts"] == 3
    assert len({one["category"] for one in got["comparisons"]}) == 3


def test_a_planted_defect_is_exit_code_1(toy: Path, prompts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = LlamaTarget.commit

    def forgetful(self: LlamaTarget, sequence: int, commit: Commit) -> IntArray:
        """Of an accepted draft the last cell is lost, so what follows sits one place too early."""
        if not len(commit.path):
            return honest(self, sequence, commit)
        honest(self, sequence, Commit(commit.path[:-1], commit.tokens[: len(commit.path)]))
        self.rewind(sequence, self.length(sequence))
        return commit.tokens[-1:]

    monkeypatch.setattr(LlamaTarget, "commit", forgetful)
    result = invoke(toy, "--prompts", prompts, "--max-tokens", "40", "--draft", "lookup", "--json")
    assert result.exit_code == BUG
    got = json.loads(result.stdout)
    assert got["bugs"] >= 1
    bug = next(one for one in got["differences"] if one["verdict"] == "bug")
    assert bug["plain"]["id"] != bug["drafted"]["id"]
    assert isinstance(bug["plain"]["text"], str)
    assert bug["gap"] >= 0.0
    assert bug["position"] >= 0
    said = invoke(toy, "--prompts", prompts, "--max-tokens", "40", "--draft", "lookup")
    assert said.exit_code == BUG
    assert f"bug at token {bug['position']}: " in said.stdout


def test_what_a_busy_machine_leaves_undecided_is_said_and_no_failure(
    toy: Path, prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgespec.check.compare import Comparer

    compare = Comparer.compare

    def busy(self: Comparer, prompt: Any, options: Any) -> Any:
        return replace(compare(self, prompt, options), result=Verdict.UNDECIDED)

    monkeypatch.setattr(Comparer, "compare", busy)
    result = invoke(toy, "--prompts", prompts, "--max-tokens", "4")
    assert result.exit_code == 0
    assert "0 bugs, 2 undecided" in result.stdout
    assert found(toy, "--prompts", prompts, "--max-tokens", "4")["undecided"] == 2


def test_a_prompt_that_is_too_long_is_skipped_and_named(toy: Path, tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    lines = [{"prompt": "the " * 900, "id": "huge", "category": "a"}, {"prompt": "the dog", "category": "a"}]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    got = found(toy, "--prompts", path, "--max-tokens", "4")
    assert (got["prompts"], got["skipped"]) == (1, ["huge"])


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [(["--prompts", "missing.jsonl"], 13), (["--max-tokens", "0"], 2), (["--draft", "off"], 2), (["--top-p", "7"], 13)],
)
def test_what_cannot_be_is_refused(toy: Path, arguments: list[str], exit_code: int) -> None:
    result = invoke(toy, *arguments)
    assert result.exit_code == exit_code
    assert result.stdout == ""


def test_ctrl_c_keeps_what_was_compared(toy: Path, prompts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes while the second prompt is answered."""
    from edgespec.check.compare import Comparer

    compare = Comparer.compare

    def interrupted(self: Comparer, prompt: Any, options: Any) -> Any:
        if prompt.text == TEXTS[1]:
            threading.Timer(0.0, signal.raise_signal, (signal.SIGINT,)).run()
        return compare(self, prompt, options)

    monkeypatch.setattr(Comparer, "compare", interrupted)
    result = invoke(toy, "--prompts", prompts, "--max-tokens", "20", "--json")
    assert result.exit_code == 130
    got = json.loads(result.stdout)
    assert (got["prompts"], got["left"]) == (1, 1)


def test_it_is_a_command_with_help() -> None:
    assert isinstance(check, click.Command)
    assert "Exit code 1" in invoke("--help").stdout
