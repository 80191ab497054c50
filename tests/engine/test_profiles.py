from __future__ import annotations

from pathlib import Path

import pytest

from edgespec.choice import DraftChoice
from edgespec.engine.profiles import Profiles, kept_profiles
from edgespec.events import Notice
from edgespec.records import Records
from edgespec.spec.acceptance import Acceptance
from edgespec.spec.tree import chain

AUTO, LOOKUP = DraftChoice.AUTO, DraftChoice.LOOKUP


def learnt(n_right: int = 30) -> Acceptance:
    acceptance = Acceptance()
    for _ in range(n_right):
        _, watch = acceptance.calibrate(0, "lookup", 0, chain([5], [0.6]), 0)
        acceptance.score(0, "lookup", watch, 0, [5])
    return acceptance


def reopened(records: Path, notices: list[Notice], fingerprint: str = "model") -> Profiles:
    return Profiles(fingerprint, Records(records), notices.append)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "profiles.json"


def test_what_was_saved_is_there_for_the_same_target_and_choice_only(path: Path) -> None:
    notices: list[Notice] = []
    reopened(path, notices).save(AUTO, learnt())
    assert reopened(path, notices).load(AUTO).profile("lookup").acceptance > 0.7
    assert reopened(path, notices).load(LOOKUP).profiles == {}
    assert reopened(path, notices, "other model").load(AUTO).profiles == {}
    assert notices == []


def test_a_run_that_learnt_nothing_leaves_the_record_as_it_is(path: Path) -> None:
    reopened(path, []).save(AUTO, learnt())
    before = path.read_bytes()
    again = reopened(path, [])
    again.save(AUTO, again.load(AUTO))
    again.save(LOOKUP, Acceptance())
    assert path.read_bytes() == before


@pytest.mark.parametrize("whole", [True, False], ids=["the file", "one record"])
def test_a_damaged_record_is_made_anew_with_one_line(path: Path, whole: bool) -> None:
    notices: list[Notice] = []
    if whole:
        path.write_text("{ damaged")
    else:
        Records(path).put("acceptance|model|auto", '{"version": 1, "profiles": {"lookup": [[0, 2.0, 1.0]]}}')
    damaged = reopened(path, notices)
    assert damaged.load(AUTO).profiles == {}
    damaged.save(AUTO, learnt())
    assert [notice.code for notice in notices] == ["records-rebuilt"]
    assert reopened(path, notices).load(AUTO).profiles
    assert len(notices) == 1


def test_they_lie_beside_what_else_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path))
    model = tmp_path / "model.gguf"
    model.write_bytes(b"a model")
    kept_profiles(model, lambda _: None).save(AUTO, learnt())
    assert (tmp_path / "cache" / "profiles.json").exists()
    assert kept_profiles(model, lambda _: None).load(AUTO).profiles
