from __future__ import annotations

import pytest

from edgespec.engine.progress import Download, Progress, Stage, loading
from edgespec.errors import EngineFailure


def test_the_share_of_the_whole() -> None:
    assert Progress(Stage.DOWNLOAD, 25, 100, "").share == 0.25
    assert Progress(Stage.DOWNLOAD, 25, 0, "").share == 0.0  # a server that does not say how much there is


def test_a_load_is_told_in_both_ways() -> None:
    told: list[Progress] = []
    parts: list[float] = []

    def on_part(part: float) -> bool:
        parts.append(part)
        return True

    report = loading("toy", told.append, on_part)
    assert report(0.5)
    assert report(1.0)
    assert told == [Progress(Stage.LOAD, 0.5, 1.0, "loading toy"), Progress(Stage.LOAD, 1.0, 1.0, "loading toy")]
    assert parts == [0.5, 1.0]
    assert loading("toy", None, None)(0.5)


@pytest.mark.parametrize(("first", "second"), [(False, True), (None, False), (False, False)])
def test_either_gives_a_load_up(first: bool | None, second: bool) -> None:
    assert not loading("toy", lambda _: first, lambda _: second)(0.5)


@pytest.mark.parametrize("returned", [None, True, 0, ""])
def test_only_false_gives_up(returned: object) -> None:
    assert loading("toy", lambda _: returned, None)(0.5)
    Download(lambda _: returned).progress(1, 2)


def test_a_download_says_what_it_does_and_is_given_up_by_an_error() -> None:
    told: list[Progress] = []
    download = Download(told.append)
    download.progress(1, 4)
    download.announce("Downloading Toy.")
    download.progress(2, 4)
    assert told == [Progress(Stage.DOWNLOAD, 1, 4, "downloading"), Progress(Stage.DOWNLOAD, 2, 4, "Downloading Toy.")]
    with pytest.raises(EngineFailure, match="given up"):
        Download(lambda _: False).progress(1, 2)
    Download(None).progress(1, 2)
