from __future__ import annotations

import dataclasses
import json

import pytest

from edgespec import events
from edgespec.events import Finish, Notice, Piece, RoundReport

KINDS = [kind for kind in vars(events).values() if isinstance(kind, type) and dataclasses.is_dataclass(kind)]


def test_finishes_are_spelled_as_programs_expect() -> None:
    assert [json.dumps(finish) for finish in Finish] == ['"stop"', '"length"', '"cancelled"']


def test_events_do_not_change_once_they_are_out() -> None:
    assert len(KINDS) > 5
    assert all("__slots__" in vars(kind) for kind in KINDS)
    assert all(kind.__setattr__ is not object.__setattr__ for kind in KINDS)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Notice("code", "message").code = "other"  # type: ignore[misc]
    assert len({Piece("a", (1,), ""), Piece("a", (1,), ""), Piece("b", (1,), "")}) == 2


def test_a_round_without_a_draft_needs_no_tree() -> None:
    report = RoundReport(1, 0, 0, 0, (5,), ("",), 0.0, 0.0, 0.0)
    assert (report.n_pending, report.tree_tokens, report.tree_parents, report.path) == (1, (), (), ())
