"""Rows on disk: what is done is skipped, damage is measured again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgespec.errors import BadInput
from tools.peer import Answer
from tools.peer_rows import Key, Prompt, Row, RowFile

ROW = Row(Key("abc", "llama", 0), "q1", "qa", 3, Answer((1, 2), True, 3, 1, 0.5, 1.0), "", 0.25)
RUN = {"model": "m", "server": "none"}
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
    rows = RowFile(tmp_path / "new" / "rows.jsonl", RUN)
    assert not rows.done(ROW.key)
    rows.append(ROW)
    rows.append(FAILED)
    again = RowFile(rows.path, RUN)
    assert again.done(ROW.key)
    assert not again.done(FAILED.key)
    assert again.rows([FAILED.key, Key("x", "llama", 0), ROW.key]) == [FAILED, ROW]


def test_a_later_row_replaces_an_earlier_one(tmp_path: Path) -> None:
    rows = RowFile(tmp_path / "rows.jsonl", RUN)
    rows.append(FAILED)
    rows.append(replace(ROW, key=FAILED.key))
    again = RowFile(rows.path, RUN)
    assert again.done(FAILED.key)
    assert len(again.rows([FAILED.key])) == 1


@pytest.mark.parametrize("n_cut", range(1, 40, 6))
def test_a_line_that_was_cut_is_measured_again(tmp_path: Path, n_cut: int) -> None:
    path = tmp_path / "rows.jsonl"
    RowFile(path, RUN).append(ROW)
    with path.open("a", encoding="utf-8") as file:
        file.write(replace(ROW, key=Key("d", "llama", 0)).to_json()[:-n_cut])
    rows = RowFile(path, RUN)
    assert rows.done(ROW.key)
    assert not rows.done(Key("d", "llama", 0))
    rows.append(replace(ROW, key=Key("d", "llama", 0)))
    assert RowFile(path, RUN).done(Key("d", "llama", 0))


def test_answers_of_another_run_are_not_mixed_in(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    RowFile(path, RUN).append(ROW)
    assert len(path.read_text(encoding="utf-8").splitlines()) == 2
    for other, names in (({**RUN, "server": "built"}, "server"), ({"model": "n"}, "model, server")):
        with pytest.raises(BadInput, match=f"other {names}; .*--fresh"):
            RowFile(path, other)
    assert RowFile(path, RUN).done(ROW.key)


@pytest.mark.parametrize("head", ["", "[]", "{}", ROW.to_json(), '{"identity": 1}', '{"identity": ["a"]}'])
def test_a_file_without_a_head_is_refused(tmp_path: Path, head: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(f"{head}\n", encoding="utf-8")
    with pytest.raises(BadInput, match="does not begin"):
        RowFile(path, RUN)


def test_an_empty_file_is_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.touch()
    RowFile(path, RUN).append(ROW)
    assert RowFile(path, RUN).done(ROW.key)
