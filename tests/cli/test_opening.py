from __future__ import annotations

import io
import signal
from pathlib import Path

import pytest
from rich.console import Console

from edgespec.cli.opening import Loading, open_model
from edgespec.cli.options import ModelFlags
from edgespec.cli.paint import Look
from edgespec.cli.screen import Screen
from edgespec.engine.progress import Progress, Stage
from edgespec.errors import CorruptModel

FLAGS = ModelFlags(
    ctx_size=512,
    threads=1,
    gpu_layers=None,
    draft_model=None,
    draft_device="auto",
    corpus=(),
    remember=False,
    offline=True,
)


def loading() -> Loading:
    return Loading(Console(file=io.StringIO()).status("loading"))


def screen() -> Screen:
    return Screen(Look(tints=False, styled=False))


def test_the_flags_reach_the_engine(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    opened = open_model(str(toy), FLAGS, screen())
    with opened.engine as engine:
        assert opened.name == "toy"
        assert (engine.settings.n_ctx, engine.settings.n_threads) == (512, 1)
    assert capsys.readouterr().out == ""


def test_ctrl_c_before_the_library_begins_raises() -> None:
    one = loading()
    with one.holding_ctrl_c(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert not one.interrupted


def test_ctrl_c_in_the_library_ends_the_load() -> None:
    one = loading()
    with one.holding_ctrl_c():
        assert one.progress(Progress(Stage.LOAD, 0.0, 1.0, "loading toy"))
        signal.raise_signal(signal.SIGINT)
        assert not one.progress(Progress(Stage.TUNE, 0.5, 1.0, "measuring"))
    assert one.interrupted


def test_an_interrupted_load_is_no_damaged_model(
    toy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = Loading.progress

    def pressing(self: Loading, now: Progress) -> bool:
        real(self, now)
        signal.raise_signal(signal.SIGINT)
        return real(self, now)

    monkeypatch.setattr(Loading, "progress", pressing)
    with pytest.raises(KeyboardInterrupt):
        open_model(str(toy), FLAGS, screen())
    assert capsys.readouterr() == ("", "")


def test_a_damaged_model_is_said(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF")
    with pytest.raises(CorruptModel):
        open_model(str(path), FLAGS, screen())
