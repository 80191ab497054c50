from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgespec.records import FORMAT, Records, write_atomically


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "folder" / "records.json"


def test_what_was_put_is_got(path: Path) -> None:
    records = Records(path)
    assert records.get("a") is None
    records.put("a", "1")
    records.put("b", "é\n")
    records.put("a", "2")
    for again in (records, Records(path)):
        assert (again.get("a"), again.get("b"), again.get("c")) == ("2", "é\n", None)
        assert not again.damaged


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"entries": {"a": "1"}}',
        json.dumps({"format": FORMAT + 1, "entries": {"a": "1"}}).encode(),
        json.dumps({"format": FORMAT, "entries": ["a"]}).encode(),
    ],
)
def test_a_damaged_file_counts_as_empty_and_is_made_anew(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    records = Records(path)
    assert records.get("a") is None
    assert records.damaged
    records.put("b", "2")
    assert Records(path).get("b") == "2"
    assert not Records(path).damaged


def test_values_that_are_no_text_are_passed_over(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"format": FORMAT, "entries": {"a": 1, "b": "2", "c": None}}))
    assert [Records(path).get(key) for key in "abc"] == [None, "2", None]


def test_a_place_that_cannot_be_written_costs_the_memory_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    records = Records(tmp_path / "file" / "records.json")
    records.put("a", "1")
    assert records.get("a") is None
    assert [child.name for child in tmp_path.iterdir()] == ["file"]


def test_a_folder_in_its_place_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "records.json" / "full").mkdir(parents=True)
    records = Records(tmp_path / "records.json")
    assert records.get("a") is None
    records.put("a", "1")
    assert [child.name for child in tmp_path.iterdir()] == ["records.json"]


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "text"
    write_atomically(path, "old")
    write_atomically(path, "new é")
    assert path.read_text(encoding="utf-8") == "new é"
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "half \udce9")
    assert path.read_text(encoding="utf-8") == "new é"
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "missing" / "text", "x")
    assert [child.name for child in tmp_path.iterdir()] == ["text"]
