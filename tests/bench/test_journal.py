from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgespec.bench.journal import Journal, replays
from edgespec.engine import DraftChoice
from edgespec.errors import DiskFull
from edgespec.spec.ledger import Entry, replay

PLAIN = Entry(1.0, 0.0, 1, 1.0)
GOOD = Entry(1.5, 0.1, 3, 1.0, 1.6, 0.7)
# Asked for more than the gate can ever have granted.
REFUSED = Entry(50.0, 0.0, 1, 1.0, 50.0, 49.0)


def noted(folder: Path, *entries: tuple[DraftChoice, Entry]) -> None:
    journal = Journal()
    for choice, entry in entries:
        journal.note(choice, entry)
        journal.flush(folder)


def test_every_start_and_every_arm_has_a_ledger_of_its_own(tmp_path: Path) -> None:
    auto, lookup = DraftChoice.AUTO, DraftChoice.LOOKUP
    noted(tmp_path, (auto, PLAIN), (lookup, PLAIN), (auto, GOOD))
    noted(tmp_path, (auto, GOOD))
    assert replays(tmp_path) == {
        "auto": [replay([PLAIN, GOOD]), replay([GOOD])],
        "lookup": [replay([PLAIN])],
    }


def test_a_ledger_that_was_not_obeyed_shows(tmp_path: Path) -> None:
    noted(tmp_path, (DraftChoice.AUTO, PLAIN), (DraftChoice.AUTO, REFUSED))
    (found,) = replays(tmp_path)["auto"]
    assert not found.kept
    assert found.n_refused == 1


def test_what_follows_a_damaged_line_is_left_out(tmp_path: Path) -> None:
    noted(tmp_path, (DraftChoice.AUTO, PLAIN))
    (path,) = tmp_path.iterdir()
    whole = path.read_text()
    for damage in ("{", "[1, 2]", "[null, 0, 1, 1, 0, 0]", "7"):
        path.write_text(f"{whole}{damage}\n{json.dumps([50, 0, 1, 1, 50, 49])}\n")
        assert replays(tmp_path) == {"auto": [replay([PLAIN])]}
    path.write_text("{\n")
    assert replays(tmp_path) == {}


def test_nothing_noted_is_nothing_written(tmp_path: Path) -> None:
    Journal().flush(tmp_path)
    assert list(tmp_path.iterdir()) == []
    journal = Journal()
    journal.note(DraftChoice.AUTO, PLAIN)
    with pytest.raises(DiskFull):
        journal.flush(tmp_path / "gone")
