"""The exactness tool on a toy model, and what it makes of comparisons that it cannot find there: ties, bugs, damage."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from edgespec.bench.prompts import Prompt
from edgespec.check import compare as compared
from edgespec.errors import BadInput
from tools.exactness import FAILURES, Comparison, Journal, Mode, counts, main, result_of, table
from tools.exactness import Result as Found

SAME = Comparison("1", "tales", Mode.EXACT_GREEDY, Found.IDENTICAL, 10, 20, 20, 9, "")
NONE = {"tie": 0, "bug": 0, "undecided": 0, "mismatch": 0}
SETTINGS = {"model": "m"}


def invoke(questions: Path, toy: Path, *more: str) -> Result:
    arguments = ["--prompts", str(questions), "--model", str(toy), "--threads", "1", "--max-tokens", "60", *more]
    return CliRunner().invoke(main, arguments)


def test_drafting_changes_nothing(questions: Path, toy: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "out.json"
    result = invoke(questions, toy, "--json", str(out))
    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.stdout.splitlines()]
    assert rows[0] == ["prompts", "identical", "tie", "bug", "undecided", "mismatch"]
    assert [row[-6] for row in rows[1:4]] == ["3", "3", "3"]
    written = json.loads(out.read_text(encoding="utf-8"))
    assert written["counts"]["exact, greedy"] == {"prompts": 3, "identical": 3, **NONE}
    assert len(written["comparisons"]) == 9
    assert any(one["n_passes_drafted"] < one["n_passes_plain"] for one in written["comparisons"])


def test_a_rerun_goes_on_where_the_last_one_ended(questions: Path, toy: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    assert invoke(questions, toy, "--json", str(out), "--n-prompts", "1").exit_code == 0
    journal = out.with_suffix(".jsonl")
    first = journal.read_text(encoding="utf-8")
    journal.write_text(first + '{"question": "3", "cate', encoding="utf-8")  # a crash in mid-line
    assert invoke(questions, toy, "--json", str(out)).exit_code == 0
    lines = journal.read_text(encoding="utf-8")
    assert lines.startswith(first)
    assert len(lines.splitlines()) == 1 + 9


def test_results_of_other_settings_are_not_mixed_in(questions: Path, toy: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    assert invoke(questions, toy, "--json", str(out), "--n-prompts", "1").exit_code == 0
    result = invoke(questions, toy, "--json", str(out), "--max-tokens", "61")
    assert result.exit_code == BadInput.exit_code
    assert "other settings" in result.stderr


@pytest.mark.parametrize("found", [Found.BUG, Found.MISMATCH])
def test_a_failure_in_the_results_is_exit_code_1(questions: Path, toy: Path, tmp_path: Path, found: Found) -> None:
    out = tmp_path / "out.json"
    assert invoke(questions, toy, "--json", str(out)).exit_code == 0
    journal = out.with_suffix(".jsonl")
    lines = journal.read_text(encoding="utf-8").splitlines()
    lines[-1] = json.dumps({**json.loads(lines[-1]), "result": found.value, "detail": "at token 3"})
    journal.write_text("\n".join(lines) + "\n", encoding="utf-8")
    result = invoke(questions, toy, "--json", str(out))
    assert result.exit_code == 1
    assert "at token 3" in result.stdout


def test_every_result_of_a_comparison_has_a_name_and_a_tie_is_no_failure() -> None:
    fast = {result_of(Mode.FAST_GREEDY, one) for one in compared.Result}
    assert fast == {Found.IDENTICAL, Found.TIE, Found.BUG, Found.UNDECIDED}
    for mode in (Mode.EXACT_GREEDY, Mode.EXACT_WARM):
        assert result_of(mode, compared.Result.BUG) is Found.MISMATCH
        assert result_of(mode, compared.Result.IDENTICAL) is Found.IDENTICAL
    assert set(FAILURES) == {Found.BUG, Found.MISMATCH}


def test_the_journal_keeps_every_comparison_as_it_comes(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    one = replace(SAME, detail="caf\u00e9 \u2028", result=Found.TIE)
    Journal(path, SETTINGS).add(one)
    Journal(path, SETTINGS).add(SAME)
    journal = Journal(path, SETTINGS)
    assert journal.comparisons == [one, SAME]
    assert journal.missing([Prompt("1", "tales", "x")]) == [
        (Prompt("1", "tales", "x"), Mode.EXACT_WARM),
        (Prompt("1", "tales", "x"), Mode.FAST_GREEDY),
    ]


def test_counts_and_table() -> None:
    bug = replace(SAME, question="7", mode=Mode.FAST_GREEDY, result=Found.BUG, detail="bug at token 2")
    assert counts([SAME, bug])["fast, greedy"] == {"prompts": 1, "identical": 0, **NONE, "bug": 1}
    lines = table([SAME, bug]).splitlines()
    assert lines[3].split() == ["fast,", "greedy", "1", "0", "0", "1", "0", "0"]
    assert lines[4] == "7 (tales, fast, greedy): bug at token 2"
