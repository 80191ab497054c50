from __future__ import annotations

import sys
from pathlib import Path

import pytest

from edgespec.bench.plot import Bar, bars, draw, require_matplotlib, require_writable
from edgespec.bench.report import Report, report
from edgespec.bench.runs import Runs
from edgespec.errors import BadInput, MissingExtra
from tests.bench.made import made

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def found(tmp_path: Path) -> Report:
    measured = [
        made(prompt, arm, category="x" if prompt != "3" else "y", decode_seconds=seconds)
        for prompt, times in {"1": (1.0, 0.5), "2": (1.0, 0.8), "3": (1.0, 2.0)}.items()
        for arm, seconds in zip(("off", "auto"), times, strict=True)
    ]
    return report(Runs(measured), ("off", "auto"), tmp_path, 0, True)


def test_bars_are_speedups_with_the_ends_turned_round(found: Report) -> None:
    x, y, everything = bars(found)
    assert x == Bar("x", "auto", pytest.approx(2 / 1.3), pytest.approx(1.25), pytest.approx(2.0))  # type: ignore[arg-type]
    assert y == Bar("y", "auto", 0.5, 0.5, 0.5)
    assert everything.category == "all"
    assert everything.speedup == pytest.approx(3 / 3.3)


def test_a_png_is_drawn(found: Report, tmp_path: Path) -> None:
    path = tmp_path / "speed.png"
    draw(found, "a machine", path)
    assert path.read_bytes().startswith(PNG)
    with pytest.raises(BadInput, match="--plot"):
        draw(found, "a machine", tmp_path / "no" / "folder.png")


def test_a_place_is_tried_without_harm(tmp_path: Path) -> None:
    kept = tmp_path / "kept.png"
    kept.write_bytes(PNG)
    require_writable(kept)
    require_writable(tmp_path / "new.png")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("kept.png", PNG)]
    for path in (tmp_path, tmp_path / "no" / "folder.png", kept / "below.png"):
        with pytest.raises(BadInput, match="--plot"):
            require_writable(path)


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match="pip install matplotlib"):
        require_matplotlib()
