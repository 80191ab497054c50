"""The real child: over tiny models of every kind, in this process and as a process of its own."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from edgespec.backend.settings import LlamaSettings
from edgespec.tune import child
from edgespec.tune.children import ChildFailed, Children, child_command
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
    classes = answers(toy(Kind.LLAMA), Order(Task.CLASSES, seconds=30.0))[1].classes
    assert sorted(width for widths in classes for width in widths)[0] == 1
    recurrent = [kind for kind in Kind if answers(toy(kind))[0].widest == 1]
    assert recurrent
    assert {answers(toy(kind), Order(Task.CLASSES, seconds=1.0))[1].classes for kind in recurrent} == {((1,),)}


def test_as_a_process(toy: Toy) -> None:
    living = Children(child_command(toy(Kind.LLAMA)), Limits(time.monotonic, 300.0, lambda: False), 2)
    assert living.ask(SETTINGS, Order(Task.READ, 16)).length == 16
    assert living.ask(SETTINGS, Order(Task.PASS, 4)).seconds > 0.0
    with pytest.raises(ChildFailed, match=r"refused: .*33"):
        living.ask(SETTINGS, Order(Task.PASS, 33))
    living.close_all()


def test_a_model_that_cannot_be_loaded_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF and nothing more")
    living = Children(child_command(path), Limits(time.monotonic, 300.0, lambda: False), 2)
    with pytest.raises(ChildFailed, match="refused: cannot load the model"):
        living.ask(SETTINGS, Order(Task.PASS, 1))
