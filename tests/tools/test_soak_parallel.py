from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgespec.engine import EngineOptions
from tools.soak_parallel import Arm, lines, measure, ratio
from tools.soak_server import WatchedEngine, open_watched, served


@pytest.fixture
def engine(toy: Path) -> Iterator[WatchedEngine]:
    with open_watched(str(toy), EngineOptions(ctx_size=1024, threads=1)) as opened:
        assert isinstance(opened, WatchedEngine)
        yield opened


def test_the_arms_take_turns_and_make_the_same_tokens(engine: WatchedEngine) -> None:
    with served(engine) as running:
        arms = measure(running, n_repeats=1, max_tokens=6)
    assert [arm.together for arm in arms] == [True, False, False, True]
    assert {arm.n_tokens for arm in arms} == {4 * 6}
    assert all(arm.seconds > 0 for arm in arms)


def test_the_ratio_is_of_all_tokens_and_all_time() -> None:
    arms = [Arm(True, 40, 1.0), Arm(False, 40, 2.0), Arm(False, 40, 2.0), Arm(True, 40, 3.0)]
    assert ratio(arms) == 1.0
    assert ratio([*arms[:3], Arm(True, 40, 1.0)]) == 2.0
    assert lines(arms)[0].split() == ["together", "40", "tokens", "1.00", "s", "40.0", "tok/s"]
    assert lines(arms)[-1] == "together 1.00 times the tokens per second of one after another"
