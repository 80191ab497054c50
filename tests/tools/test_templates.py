from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgespec.errors import BadInput, ContextOverflow
from tools.templates import ARMS, main, unlike

SMALL = ["--per-family", "2", "--per-category", "1", "--max-tokens", "24", "--repeat", "1", "--threads", "1"]


def test_templates_and_prompts_of_a_file_are_measured(toy: Path, questions: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["--model", str(toy), "--prompts", str(questions), "--categories", "sums,tales", *SMALL]
    done = CliRunner().invoke(main, [*arguments, "--out", str(out), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert list(found["templates"]["by_category"]) == ["form", "email", "code", "record"]
    assert sorted(found["unlike"]["by_category"]) == ["sums", "tales"]
    for part in (found["templates"], found["unlike"]):
        assert tuple(part["overall"]) == ARMS
        assert part["overall"]["off"]["tokens_per_pass"] == pytest.approx(1.0, abs=0.1)
        assert part["overall"]["warm"]["time_ratio"] > 0.0
    assert found["corpus"]["texts"] == 4
    assert "not tuned" in done.stderr
    n_lines = len((out / "templates" / "answers.jsonl").read_text(encoding="utf-8").splitlines())
    assert n_lines == 4 * len(ARMS)

    again = CliRunner().invoke(main, [*arguments, "--out", str(out)])
    assert again.exit_code == 0, again.output
    assert "warm on templates, of all answers" in again.stdout
    assert "cold where nothing repeats, part" in again.stdout
    assert len((out / "templates" / "answers.jsonl").read_text(encoding="utf-8").splitlines()) == n_lines


def test_a_context_without_room_is_refused(toy: Path, tmp_path: Path) -> None:
    arguments = ["--model", str(toy), *SMALL, "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(main, [*arguments, "--ctx-size", "64"])
    assert done.exit_code == ContextOverflow.exit_code
    assert done.stderr.splitlines()[-1].startswith("error: a prompt of")
    done = CliRunner().invoke(main, [*arguments, "--ctx-size", "512", "--max-tokens", "500"])
    assert done.exit_code == BadInput.exit_code
    assert "no prompt fits with its answer" in done.stderr


def test_other_past_answers_are_another_measurement(toy: Path, questions: Path, tmp_path: Path) -> None:
    arguments = ["--model", str(toy), "--prompts", str(questions), "--categories", "sums", *SMALL]
    arguments += ["--out", str(tmp_path / "out"), "--max-tokens", "4"]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    done = CliRunner().invoke(main, [*arguments, "--per-family", "4"])
    assert done.exit_code == BadInput.exit_code
    assert "it holds a run with other prompts" in done.stderr


def test_categories_are_those_of_the_file(questions: Path) -> None:
    assert list(unlike(questions, "sums, tales")) == ["sums", "tales"]
    with pytest.raises(BadInput, match="no prompts of 'writing'; choose among tales, sums"):
        unlike(questions, "sums,writing")
