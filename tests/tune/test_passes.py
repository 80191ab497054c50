"""Single measurements with fake children; what the search makes of them is in test_search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgespec.backend.cores import CoreUse
from edgespec.backend.settings import LlamaSettings
from edgespec.tune import children
from edgespec.tune.children import Children
from edgespec.tune.limits import Limits
from edgespec.tune.passes import NotNow, Passes
from edgespec.tune.protocol import Order, Task
from edgespec.tune.sheet import Sheet, opening_of
from edgespec.tune.watch import Watch
from tests.tune.bench import Ticks, Workbench

BOTH = LlamaSettings(n_ctx=1024, n_threads=2)
SINGLE = replace(BOTH, n_threads=1)
OPENING = opening_of(BOTH)


class Place:
    """Passes over a sheet with one context, and the cores' worth that others use."""

    def __init__(self, folder: Path, *rules: str, cap_seconds: float = 100.0, step: float = 1e-3) -> None:
        self.others = 0.0
        limits = Limits(Ticks(step), cap_seconds, lambda: False)
        self.living = Children(Workbench(folder, rules).command, limits, 2)
        watch = Watch(lambda: CoreUse(1.0, 2, 1.0, self.others), limits.now, 10.0)
        self.passes = Passes(Sheet((32,)), 2, self.living, limits, watch)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.living.close_all()


def test_as_many_times_as_are_needed(place: Place) -> None:
    place.passes.need(BOTH, 32, 4, 2, 1.0)
    place.passes.need(BOTH, 32, 4, 2, 1.0)
    assert place.passes.sheet.count(BOTH, 32, 4) == 2
    assert place.passes.length(OPENING) == 32
    assert place.passes.token_seconds > 0.0


def test_no_time_no_pass(place: Place) -> None:
    place.passes.need(BOTH, 32, 1, 1, 1.0)
    with pytest.raises(NotNow):
        place.passes.need(BOTH, 32, 4, 1, 0.0)
    assert not place.passes.guarded(OPENING, lambda: place.passes.need(BOTH, 32, 4, 1, 0.0))
    assert place.passes.lives(BOTH)


@pytest.mark.parametrize(("others", "kept"), [(0.2, 1), (0.5, 0)])
def test_at_the_end_the_times_of_a_disturbed_window_are_taken_back(place: Place, others: float, kept: int) -> None:
    place.passes.need(BOTH, 32, 4, 1, 1.0)
    place.others = others
    place.passes.leave()
    assert place.passes.sheet.count(BOTH, 32, 4) == kept
    assert place.passes.n_lost == 1 - kept


def test_an_opening_that_hangs_with_every_number_of_threads_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(children, "PATIENCE_FACTOR", 1.0)
    monkeypatch.setattr(children, "GLANCE_SECONDS", 0.02)
    place = Place(tmp_path, "all=hangs@at-pass", cap_seconds=4.0, step=0.01)
    passes = place.passes

    def measure() -> None:
        for one in (BOTH, SINGLE):
            passes.need(one, 32, 1, 1, 10.0)

    assert passes.guarded(OPENING, measure)
    assert set(passes.hung) == {BOTH, SINGLE}
    assert passes.fates[OPENING].startswith("hung: no answer")
    assert not place.living.is_open(OPENING)
    with pytest.raises(NotNow):
        passes.ask(OPENING, Order(Task.PASS, 1, 2))
