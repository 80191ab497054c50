"""Real processes that misbehave, and what their parent makes of it."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from edgespec.backend.settings import LlamaSettings
from edgespec.errors import EngineFailure
from edgespec.tune import children
from edgespec.tune.children import Child, ChildFailed, Children
from edgespec.tune.limits import Limits, OutOfTime, Stopped
from edgespec.tune.protocol import Order, Task

SETTINGS = [LlamaSettings(n_threads=1, n_ctx=n_ctx) for n_ctx in (64, 128, 192)]


class Family:
    """Fake children, and the processes that were started for them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rule = "all=works"

    def command(self, settings: LlamaSettings) -> Sequence[str]:
        return [
            sys.executable,
            "-m",
            "tests.tune.fake_child",
            settings.to_json(),
            str(self.folder / "notes"),
            self.rule,
        ]


@pytest.fixture
def family(tmp_path: Path) -> Family:
    return Family(tmp_path)


@pytest.fixture(autouse=True)
def _none_left_behind() -> Iterator[None]:
    before = set(psutil.Process().children())
    yield
    assert set(psutil.Process().children()) <= before


def limits(cap_seconds: float = 60.0, stop: bool = False) -> Limits:
    return Limits(time.monotonic, cap_seconds, lambda: stop)


def test_answers(family: Family) -> None:
    before = set(psutil.Process().children())  # helpers of other tests may live on
    living = Children(family.command, limits(), 2)
    read = living.ask(SETTINGS[0], Order(Task.READ, 40, 1, 512))
    assert (read.length, read.widest) == (40, 32)
    assert living.ask(SETTINGS[0], Order(Task.PASS, 1)).seconds == pytest.approx(0.01)
    assert living.slowest_open > 0.0
    assert living.pids() == [child.pid for child in psutil.Process().children() if child not in before]
    living.close_all()
    assert living.pids() == []


def test_no_process_no_room(family: Family, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(EngineFailure, match=r"cannot start a process to measure in: .*no such program"):
        Child([str(tmp_path / "no such program")])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "no such folder"))
    living = Children(family.command, limits(), 2)
    with pytest.raises(EngineFailure, match="cannot start a process to measure in"):
        living.ask(SETTINGS[0], Order(Task.PASS, 1))
    assert living.pids() == []


def test_at_most_so_many_live_and_the_one_unused_longest_goes(family: Family) -> None:
    living = Children(family.command, limits(), 2)
    for i in (0, 1, 0, 2):
        living.ask(SETTINGS[i], Order(Task.PASS, 1))
    assert [living.is_open(settings) for settings in SETTINGS] == [True, False, True]
    living.close_all()
    assert not living.is_open(SETTINGS[0])


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("all=dies@at-start", "died: out of tiles"),
        ("all=dies@at-pass", "died: out of tiles"),
        ("all=refuses@at-start", "refused: no memory for it"),
        ("all=refuses@at-pass", "refused: no memory for it"),
        ("all=babbles@at-pass", "failed: no report: 'llama says hello'"),
    ],
)
def test_failures_have_words(family: Family, rule: str, said: str) -> None:
    family.rule = rule
    living = Children(family.command, limits(), 2)
    with pytest.raises(ChildFailed, match=said):
        living.ask(SETTINGS[0], Order(Task.PASS, 1))
    assert not living.is_open(SETTINGS[0])


def test_a_child_without_last_words() -> None:
    child = Child([sys.executable, "-c", "raise SystemExit(7)"])
    with pytest.raises(ChildFailed, match="died: it left with code 7"):
        child.report(limits(), 60.0)
    child.close()
    child.close()


def test_ctrl_c_while_python_starts_is_no_crash_of_the_build() -> None:
    child = Child([sys.executable, "-c", "import signal; signal.raise_signal(signal.SIGINT)"])
    with pytest.raises(ChildFailed, match=r"^interrupted$"):
        child.report(limits(), 60.0)
    child.close()


@pytest.mark.parametrize("moment", ["at-start", "at-pass"])
def test_a_child_that_hangs(family: Family, moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    family.rule = f"all=hangs@{moment}"
    monkeypatch.setattr(children, "PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(children, "PATIENCE_FACTOR", 1.0)
    living = Children(family.command, limits(cap_seconds=8.0), 2)
    with pytest.raises(ChildFailed, match="hung: no answer within"):
        living.ask(SETTINGS[0], Order(Task.PASS, 1))
    assert not living.is_open(SETTINGS[0])


def test_out_of_time(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    family.rule = "all=hangs@at-start"
    monkeypatch.setattr(children, "GRACE_SECONDS", 0.0)
    living = Children(family.command, limits(cap_seconds=0.1), 2)
    with pytest.raises(OutOfTime):
        living.ask(SETTINGS[0], Order(Task.PASS, 1))


def test_stopped(family: Family) -> None:
    living = Children(family.command, limits(stop=True), 2)
    with pytest.raises(Stopped):
        living.ask(SETTINGS[0], Order(Task.PASS, 1))
    assert not living.is_open(SETTINGS[0])


def test_a_dead_child_is_replaced(family: Family) -> None:
    family.rule = "all=dies@at-wide"
    living = Children(family.command, limits(), 2)
    with pytest.raises(ChildFailed):
        living.ask(SETTINGS[0], Order(Task.PASS, 20))
    assert living.ask(SETTINGS[0], Order(Task.PASS, 1)).length == 0
    living.ask(replace(SETTINGS[0], extra_buffers=False), Order(Task.PASS, 1))
    living.close_all()
