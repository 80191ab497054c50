from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from edgespec.backend.settings import KvType, LlamaSettings
from edgespec.records import Records
from edgespec.spec.cost import CostTable
from edgespec.tune.sheet import Sheet
from edgespec.tune.store import (
    Forced,
    forget_sheet,
    save_sheet,
    save_tuning,
    stored_sheet,
    stored_tuning,
    tuning_records,
)
from edgespec.tune.tuning import Candidate, Choice, Tuned, Tuning

SETTINGS = LlamaSettings(n_threads=2)
TABLE = CostTable((16, 64), (1, 2), ((0.1, 0.2), (0.15, 0.25)))
TUNING = Tuning(
    (Choice(64, Tuned(SETTINGS, TABLE, TABLE)),),
    (16, 64),
    (Candidate(SETTINGS, (0.1, 0.15)), Candidate(replace(SETTINGS, n_threads=1), (), "died: of nothing")),
    SETTINGS,
    1.5,
    (1, 2),
    False,
    "2026-01-01T00:00:00+00:00",
)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"a model")
    return path


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path / "tuning.json")


def test_a_tuning_comes_back(model: Path, records: Records) -> None:
    assert stored_tuning(model, "build", Forced(), records) is None
    save_tuning(model, "build", Forced(), records, TUNING)
    assert stored_tuning(model, "build", Forced(), records) == TUNING


@pytest.mark.parametrize(
    "forced", [Forced(threads=2), Forced(extra_buffers=True), Forced(gpu_layers=0), Forced(kv_type=KvType.F16)]
)
def test_wishes_have_tunings_of_their_own(model: Path, records: Records, forced: Forced) -> None:
    save_tuning(model, "build", Forced(), records, TUNING)
    assert stored_tuning(model, "build", forced, records) is None
    save_tuning(model, "build", forced, records, replace(TUNING, measured_on="later"))
    assert stored_tuning(model, "build", Forced(), records) == TUNING


def test_another_build_or_another_model_is_measured_anew(model: Path, records: Records) -> None:
    save_tuning(model, "build", Forced(), records, TUNING)
    assert stored_tuning(model, "another build", Forced(), records) is None
    model.write_bytes(b"another model")
    assert stored_tuning(model, "build", Forced(), records) is None


def test_a_moved_model_keeps_its_tuning(model: Path, records: Records) -> None:
    save_tuning(model, "build", Forced(), records, TUNING)
    assert stored_tuning(model.rename(model.with_name("moved.gguf")), "build", Forced(), records) == TUNING


def test_a_damaged_record_is_no_tuning(model: Path, records: Records) -> None:
    save_tuning(model, "build", Forced(), records, TUNING)
    damaged = records.path.read_text().replace("choices", "chances")
    records.path.write_text(damaged)
    assert stored_tuning(model, "build", Forced(), records) is None
    save_tuning(model, "build", Forced(), records, TUNING)
    assert stored_tuning(model, "build", Forced(), records) == TUNING


@pytest.mark.parametrize("damage", [('"n_ctx": 4096', '"n_ctx": -1'), ('"n_threads": 2', '"n_threads": 2.5')])
def test_settings_that_cannot_be_are_no_tuning_and_no_sheet(damage: tuple[str, str]) -> None:
    """A damaged record must not stop every start."""
    sheet = Sheet((16,))
    sheet.add(SETTINGS, 16, 1, 0.1)
    for text, read in ((TUNING.to_text(), Tuning.from_text), (sheet.to_text(), Sheet.from_text)):
        before, after = (json.dumps(part)[1:-1] for part in damage)
        assert before in text
        with pytest.raises(ValueError, match="these are no settings"):
            read(text.replace(before, after))


def test_a_tuning_from_before_there_was_a_choice_of_gpus_still_loads() -> None:
    old = TUNING.to_text().replace('\\"main_gpu\\": -1, ', "")
    assert "main_gpu" not in old
    assert Tuning.from_text(old) == TUNING


def test_sheets(model: Path, records: Records) -> None:
    sheet = Sheet((16,))
    sheet.add(SETTINGS, 16, 1, 0.1)
    assert stored_sheet(model, "build", Forced(), records).contexts == ()
    save_sheet(model, "build", Forced(), records, sheet)
    assert stored_sheet(model, "build", Forced(), records).plain(SETTINGS) == (0.1,)
    forget_sheet(model, "build", Forced(), records)
    assert stored_sheet(model, "build", Forced(), records).contexts == ()


def test_the_file_lies_in_the_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path))
    assert tuning_records().path == tmp_path / "cache" / "tuning.json"
