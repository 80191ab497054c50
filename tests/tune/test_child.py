"""The real child: over tiny models of every kind, in this process and as a process of its own."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from edgespec.backend.settings import LlamaSettings
from edgespec.backend.widths import SCOPES
from edgespec.tune import child
from edgespec.tune.children import ChildFailed, Children, setting_command
from edgespec.tune.limits import Limits
from edgespec.tune.protocol import Order, Report, Task
from tools.make_toy_model import Kind, write_toy_model

SETTINGS = LlamaSettings(n_ctx=1024, n_threads=1, prefill_chunk=512)
Toy = Callable[[Kind], Path]


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    folder = tmp_path_factory.mktemp("toys")
    return lambda kind: write_toy_model(folder / f"{kind.value}.gguf", kind)


def answers(path: Path, *orders: Order, settings: LlamaSettings = SETTINGS) -> list[Report]:
    """What a child reports: its readiness, then one for each order."""
    reports = io.StringIO()
    child.serve(path, settings, io.StringIO("".join(order.to_line() for order in orders)), reports)
    return [Report.from_line(line) for line in reports.getvalue().splitlines()]


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_of_model_is_measured(kind: Kind, toy: Toy) -> None:
    widest = answers(toy(kind))[0].widest
    orders = [
        Order(Task.READ, 40, 1, 32),
        Order(Task.READ, 40, 1, 32),
        *(Order(Task.PASS, width) for width in (1, 2, 16, 32) if width <= widest),
        Order(Task.READ, 10),
    ]
    ready, first, second, *passes, cut = answers(toy(kind), *orders)
    assert (ready.length, first.length, second.length) == (0, 32, 40)
    assert all(report.seconds > 0.0 for report in (first, second, *passes))
    assert len(passes) == (4 if widest == 32 else 1)
    if widest > 1:
        assert {report.length for report in passes} == {40}
    assert cut.length == 10


def test_threads_change_and_the_times_of_both_are_told(toy: Toy) -> None:
    read, one, two = answers(toy(Kind.LLAMA), Order(Task.READ, 20), Order(Task.PASS, 2, 1), Order(Task.PASS, 2, 2))[1:]
    assert read.length == one.length == two.length == 20
    assert min(one.seconds, two.seconds) > 0.0


def test_classes(toy: Toy) -> None:
    classes = answers(toy(Kind.LLAMA), Order(Task.CLASSES, seconds=1e9))[1].classes
    assert sorted(width for widths in classes for width in widths)[0] == 1
    recurrent = [kind for kind in Kind if answers(toy(kind))[0].widest == 1]
    assert recurrent
    assert {answers(toy(kind), Order(Task.CLASSES, seconds=1.0))[1].classes for kind in recurrent} == {()}


def test_a_hurried_probe_finds_no_classes(toy: Toy) -> None:
    """Its result would be kept, so widths are compared as thoroughly as ever or not at all."""
    assert answers(toy(Kind.LLAMA), Order(Task.CLASSES, seconds=1e-6))[1].classes == ()
    short = replace(SETTINGS, n_ctx=SCOPES[0].n_tokens - 1)
    assert answers(toy(Kind.LLAMA), Order(Task.CLASSES, seconds=30.0), settings=short)[1].classes == ()


def test_widths_are_compared_with_the_threads_that_they_run_with(toy: Toy) -> None:
    settings = replace(SETTINGS, n_threads=2)
    with child.opened(toy(Kind.LLAMA), settings) as worker:
        assert worker.carry_out(Order(Task.CLASSES, n_threads=1, n_batch=2, seconds=1e9)).classes
        assert (worker.settings.n_threads, worker.settings.batch_threads) == (1, 2)
        worker.carry_out(Order(Task.PASS, 2, 2))
        assert (worker.settings.n_threads, worker.settings.batch_threads) == (2, 2)


def test_ctrl_c_is_for_the_parent(toy: Toy) -> None:
    """It reaches every process of the terminal, and must not look as if the build had died of the settings."""
    script = """
import signal, sys
from edgespec.tune import child
serve = child.serve
def pressed(*given):
    signal.raise_signal(signal.SIGINT)
    serve(*given)
child.serve = pressed
sys.exit(child.main())
"""
    path = str(toy(Kind.LLAMA))
    living = Children(
        lambda settings: [sys.executable, "-c", script, path, settings.to_json()],
        Limits(time.monotonic, 300.0, lambda: False),
        1,
    )
    assert living.ask(SETTINGS, Order(Task.READ, 16)).length == 16
    living.close_all()


def test_as_a_process(toy: Toy) -> None:
    living = Children(setting_command(toy(Kind.LLAMA)), Limits(time.monotonic, 300.0, lambda: False), 2)
    assert living.ask(SETTINGS, Order(Task.READ, 16)).length == 16
    assert living.ask(SETTINGS, Order(Task.PASS, 4)).seconds > 0.0
    with pytest.raises(ChildFailed, match=r"refused: .*33"):
        living.ask(SETTINGS, Order(Task.PASS, 33))
    living.close_all()


def test_a_model_that_cannot_be_loaded_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF and nothing more")
    living = Children(setting_command(path), Limits(time.monotonic, 300.0, lambda: False), 2)
    with pytest.raises(ChildFailed, match="refused: cannot load the model"):
        living.ask(SETTINGS, Order(Task.PASS, 1))
