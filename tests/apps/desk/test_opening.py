"""From a name to a model in memory, with files and packages of the test's own."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from apps.desk.opening import Wanted, find, load, real_means, tune
from apps.desk.task import Stopped, Task
from edgespec import EngineOptions, GenerateOptions, Notice
from edgespec.errors import CorruptModel, LicenceNotAccepted, ModelNotFound, NetworkUnavailable
from edgespec.library.resolve import ResolvedModel
from tests.cli.toy_home import ToyHome, make_toy_home

OPTIONS = EngineOptions(ctx_size=512, threads=1)


class Told:
    """What a task was told; it stops itself at the first progress that begins with `stop_at`."""

    def __init__(self, stop_at: str = "nothing does") -> None:
        self.said: list[str] = []
        self.task = Task(self._report)
        self._stop_at = stop_at

    def _report(self, doing: str, done: float | None) -> None:
        assert done is None or 0.0 <= done <= 1.0
        self.said.append(doing)
        if doing.startswith(self._stop_at):
            self.task.stop()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToyHome:
    return make_toy_home(monkeypatch, tmp_path)


def test_a_file_is_loaded_and_answers(toy_file: Path) -> None:
    told, notices = Told(), list[Notice]()
    means = real_means(OPTIONS, offline=True)
    found = means.find(Wanted(str(toy_file)), told.task)
    loaded = means.load(found, told.task, notices.append)
    with loaded.engine as engine:
        assert loaded.name == "toy"
        assert engine.conversation().say("the river", GenerateOptions(max_tokens=4)).text
    assert told.said[0] == "looking for the model"
    assert "loading toy" in told.said


def test_what_is_not_there_and_what_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="no-such"):
        find(Wanted(str(tmp_path / "no-such.gguf")), True, Told().task)
    text = tmp_path / "text.gguf"
    text.write_text("this is no model", "utf-8")
    with pytest.raises(CorruptModel, match=r"text\.gguf"):
        find(Wanted(str(text)), True, Told().task)


def test_a_load_is_given_up(toy_file: Path) -> None:
    told = Told("loading")
    with pytest.raises(Stopped):
        load(ResolvedModel(toy_file, None, "toy"), OPTIONS, told.task, lambda _notice: None)
    assert not [one.name for one in threading.enumerate() if one.name == "edgespec-target"]


def test_a_card_is_downloaded_with_progress(home: ToyHome) -> None:
    told = Told()
    found = find(Wanted("toy"), False, told.task)
    assert found.path == home.installed
    assert any(line.startswith("downloading, ") for line in told.said)
    assert any(line.startswith("Downloading ") for line in told.said)


def test_a_download_is_given_up_and_nothing_stays(home: ToyHome) -> None:
    with pytest.raises(Stopped):
        find(Wanted("toy"), False, Told("Downloading").task)
    assert home.files() == []
    assert find(Wanted("toy"), False, Told().task).path == home.installed


def test_a_licence_is_accepted_first(home: ToyHome) -> None:
    home.write_card(guarded=True)
    with pytest.raises(LicenceNotAccepted, match="toy"):
        find(Wanted("toy"), False, Told().task)
    assert find(Wanted("toy", licence_accepted=True), False, Told().task).path == home.installed


def test_offline_nothing_is_fetched(home: ToyHome) -> None:
    with pytest.raises(NetworkUnavailable, match="toy"):
        find(Wanted("toy"), True, Told().task)
    assert home.files() == []


def test_a_measurement_is_given_up_soon(toy_file: Path) -> None:
    with pytest.raises(Stopped):
        tune(ResolvedModel(toy_file, None, "toy"), OPTIONS, Told("measuring").task, lambda _notice: None)
