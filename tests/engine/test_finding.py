"""A model fetched for a program, from a folder of wheels as the only index: told all along, given up by False."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgespec.engine.finding import find_model
from edgespec.engine.progress import Progress, Stage
from edgespec.errors import GivenUp, NetworkUnavailable
from tests.cli.toy_home import ToyHome, make_toy_home


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ToyHome:
    return make_toy_home(monkeypatch, tmp_path)


def test_a_download_is_told_and_what_is_there_is_not_fetched_again(
    home: ToyHome, capfd: pytest.CaptureFixture[str]
) -> None:
    told: list[Progress] = []
    found = find_model("toy", told.append)
    assert found.path.read_bytes() == home.content
    assert {now.stage for now in told} == {Stage.DOWNLOAD}
    assert told[-1].share == 1.0
    assert "Downloading Toy" in told[-1].doing
    told.clear()
    assert find_model("toy", told.append) == found
    assert told == []
    assert capfd.readouterr() == ("", "")


def test_a_download_that_is_given_up_leaves_no_model_and_can_be_repeated(home: ToyHome) -> None:
    with pytest.raises(GivenUp, match="given up"):
        find_model("toy", lambda _: False)
    assert not home.installed.exists()
    assert find_model("toy").path.read_bytes() == home.content


@pytest.mark.usefixtures("home")
def test_offline_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGESPEC_OFFLINE", "1")
    with pytest.raises(NetworkUnavailable):
        find_model("toy")
