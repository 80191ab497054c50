from __future__ import annotations

import pytest

from edgespec.engine.progress import Download, Progress, Stage, loading
from edgespec.errors import GivenUp


def test_the_share_of_the_whole() -> None:
    assert Progress(Stage.DOWNLOAD, 25, 100, "").share == 0.25
    assert Progress(Stage.DOWNLOAD, 25, 0, "").share == 0.0  # a server that does not say how much there is


def test_a_load_is_told() -> None:
    told: list[Progress] = []
    report = loading("toy", told.append)
    assert report(0.5)
    assert report(1.0)
    assert told == [Progress(Stage.LOAD, 0.5, 1.0, "loading toy"), Progress(Stage.LOAD, 1.0, 1.0, "loading toy")]
    assert loading("toy", None)(0.5)


def test_a_load_is_given_up_by_an_error() -> None:
    with pytest.raises(GivenUp, match="toy: loading was given up"):
        loading("toy", lambda _: False)(0.5)


@pytest.mark.parametrize("returned", [None, True, 0, ""])
def test_only_false_gives_up(returned: object) -> None:
    assert loading("toy", lambda _: returned)(0.5)
    Download(lambda _: returned).progress(1, 2)


def test_a_download_says_what_it_does_and_is_given_up_by_an_error() -> None:
    told: list[Progress] = []
    download = Download(told.append)
    download.progress(1, 4)
    download.announce("Downloading Toy.")
    download.progress(2, 4)
    assert told == [Progress(Stage.DOWNLOAD, 1, 4, "downloading"), Progress(Stage.DOWNLOAD, 2, 4, "Downloading Toy.")]
    with pytest.raises(GivenUp, match="given up"):
        Download(lambda _: False).progress(1, 2)
    Download(None).progress(1, 2)
