"""Tuning as a program asks for it, with real children on a toy model; the search itself is tested where it lives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edgespec.backend.llama.native import library_fingerprint
from edgespec.engine import EngineOptions
from edgespec.engine.measuring import tune_model
from edgespec.engine.progress import Progress, Stage
from edgespec.errors import EngineFailure, ModelNotFound
from edgespec.events import Notice
from edgespec.tune import tuner
from edgespec.tune.search import Progress as Searched
from edgespec.tune.store import Forced, stored_sheet, tuning_records
from edgespec.tune.tuning import Tuning
from tools.make_toy_model import write_toy_model

ONE_THREAD = EngineOptions(threads=1)


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESPEC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("EDGESPEC_OFFLINE", "1")


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_model(tmp_path_factory.mktemp("models") / "toy.gguf")


def test_it_tells_how_far_it_is_and_false_ends_it(toy: Path, capfd: pytest.CaptureFixture[str]) -> None:
    told: list[Progress] = []

    def show(now: Progress) -> bool:
        told.append(now)
        return now.share == 0.0

    assert tune_model(toy, ONE_THREAD, show) is None
    assert {now.stage for now in told} == {Stage.TUNE}
    assert [now for now in told if now.share > 0.0] == told[-1:]  # after False it is not asked again
    assert all(now.doing for now in told)
    assert capfd.readouterr() == ("", "")


def test_what_nothing_can_be_measured_of_is_an_error_that_says_why(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(
        path: Path,
        library: str,
        forced: Forced,
        on_progress: Callable[[Searched], None],
        should_stop: Callable[[], bool],
        cap_seconds: float,
        notify: Callable[[Notice], None],
    ) -> Tuning | None:
        assert (path, library, forced, cap_seconds) == (toy, library_fingerprint(), Forced(threads=1), 7.0)
        on_progress(Searched(0.5, "measuring"))
        assert not should_stop()
        notify(Notice("not-tuned", "every child died"))
        return None

    monkeypatch.setattr(tuner, "tune", nothing)
    told: list[Progress | Notice] = []
    with pytest.raises(EngineFailure, match="cannot tune toy: every child died"):
        tune_model(toy, ONE_THREAD, told.append, told.append, cap_seconds=7.0)
    assert told == [Progress(Stage.TUNE, 0.5, 1.0, "measuring"), Notice("not-tuned", "every child died")]
    assert not stored_sheet(toy, library_fingerprint(), Forced(threads=1), tuning_records()).contexts


def test_a_model_that_is_not_there() -> None:
    with pytest.raises(ModelNotFound):
        tune_model("no-such-model")
