"""Rows on disk: what is done is skipped, damage is measured again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tools.peer import Answer
from tools.peer_rows import Key, Prompt, Row, RowFile

ROW = Row(Key("abc", "llama", 0), "q1", "qa", 3, Answer((1, 2), True, 3, 1, 0.5, 1.0), "", 0.25)
FAILED = replace(ROW, key=Key("abc", "llama", 1), answer=None, failure="llama: it hung; wait.")


def test_a_row_comes_back_from_its_line() -> None:
    for row in (ROW, FAILED):
        assert Row.from_json(row.to_json()) == row
        assert "\n" not in row.to_json()


def test_prompts_are_told_apart_by_their_tokens_alone() -> None:
    one = Prompt("1", "qa", (1, 2, 3))
    assert one.digest == Prompt("2", "rag", (1, 2, 3)).digest
    assert one.digest != Prompt("1", "qa", (1, 23)).digest


def test_what_was_answered_is_done_and_what_failed_is_not(tmp_path: Path) -> None:
    rows = RowFile(tmp_path / "new" / "rows.jsonl")
    assert not rows.done(ROW.key)
    rows.append(ROW)
    rows.append(FAILED)
    again = RowFile(rows.path)
    assert again.done(ROW.key)
    assert not again.done(FAILED.key)
    assert again.rows([FAILED.key, Key("x", "llama", 0), ROW.key]) == [FAILED, ROW]


def test_a_later_row_replaces_an_earlier_one(tmp_path: Path) -> None:
    rows = RowFile(tmp_path / "rows.jsonl")
    rows.append(FAILED)
    rows.append(replace(ROW, key=FAILED.key))
    again = RowFile(rows.path)
    assert again.done(FAILED.key)
    assert len(again.rows([FAILED.key])) == 1


@pytest.mark.parametrize("n_cut", range(1, 40, 6))
def test_a_line_that_was_cut_is_measured_again(tmp_path: Path, n_cut: int) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(ROW.to_json() + "\n" + replace(ROW, key=Key("d", "llama", 0)).to_json()[:-n_cut], encoding="utf-8")
    rows = RowFile(path)
    assert rows.done(ROW.key)
    assert not rows.done(Key("d", "llama", 0))
    rows.append(replace(ROW, key=Key("d", "llama", 0)))
    assert RowFile(path).done(Key("d", "llama", 0))
