from __future__ import annotations

import json
from dataclasses import astuple
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgespec.events import RoundReport
from tools.busy import N_JUDGED, Span, Stamps, back_seconds, figures, main, rate, table

SPAN = Span(before=10, during=20, after=100)


def moments(*parts: tuple[int, float]) -> list[float]:
    """So many tokens with so many seconds between them, in turn."""
    found, now = list[float](), 0.0
    for n, seconds in parts:
        for _ in range(n):
            now += seconds
            found.append(now)
    return found


IDLE = moments((130, 0.01))
ALONE = moments((130, 0.015))


def test_a_rate_is_that_of_the_tokens_in_between() -> None:
    assert rate(moments((10, 0.01), (10, 0.1)), 10, 20) == pytest.approx(10.0)
    assert rate(moments((10, 0.01), (10, 0.1)), 1, 10) == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("parts", "back"),
    [
        ([(130, 0.01)], 0.0),
        ([(30, 0.02), (100, 0.0109)], 0.0),
        ([(30, 0.02), (50, 0.02), (50, 0.01)], 1.0 - 0.02 * 6),  # six slow tokens among the judged are within a tenth
        ([(130, 0.02)], None),
        ([(30, 0.02), (99, 0.02), (1, 0.01)], None),
    ],
)
def test_full_speed_is_back_when_it_is_held(parts: list[tuple[int, float]], back: float | None) -> None:
    found = back_seconds(moments(*parts), IDLE, SPAN.end)
    assert found is None if back is None else found == pytest.approx(back, abs=0.07)


def test_figures_compare_the_same_tokens_and_are_medians() -> None:
    busy = moments((10, 0.01), (20, 0.02), (100, 0.01))
    slow = moments((10, 0.01), (20, 0.09), (100, 0.01))
    one = figures(1, [[ALONE, IDLE, busy], [ALONE, IDLE, busy], [ALONE, IDLE, slow]], SPAN)
    assert (one.n_busy, one.n_repeats) == (1, 3)
    assert astuple(one)[2:] == pytest.approx((100.0, 50.0, 100.0, 0.75, 0.5, 0.0))
    lost = figures(1, [[ALONE, IDLE, busy], [ALONE, IDLE, moments((130, 0.02))]], SPAN)
    assert lost.back_seconds is None
    assert "never" in table([one, lost])


def test_acts_are_done_at_their_tokens_once() -> None:
    done: list[int] = []
    stamps = Stamps({5: lambda: done.append(5), 2: lambda: done.append(2)})
    for expected in ([], [2], [2, 5], [2, 5]):
        stamps.on_round(RoundReport(1, 0, 0, 0, (7,) * (1 if not stamps.moments else 2), ("",), 0.0, 0.0, 0.0))
        assert done == expected
    assert len(stamps.moments) == 7


@pytest.mark.parametrize("as_json", [True, False])
def test_a_run(as_json: bool, toy: Path) -> None:
    counts = ["--before", "2", "--during", "4", "--after", str(N_JUDGED), "--prompt-tokens", "10", "--repeat", "1"]
    arguments = ["--model", str(toy), "--threads", "2", *counts, *(["--json"] if as_json else [])]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    if not as_json:
        assert len(result.stdout.splitlines()) == 3
        return
    written = json.loads(result.stdout)
    assert written["defaults"] == []
    assert (written["n_threads"], written["before"], written["during"]) == (2, 2, 4)
    assert [one["n_busy"] for one in written["runs"]] == [1, 2]
    assert all(one["during"] > 0.0 and one["during_vs_one_thread_alone"] > 0.0 for one in written["runs"])


def test_the_library_as_it_comes_is_asked_too(toy: Path) -> None:
    counts = ["--before", "2", "--during", "2", "--after", str(N_JUDGED), "--prompt-tokens", "10", "--repeat", "1"]
    arguments = ["--model", str(toy), "--threads", "2", *counts, "--defaults"]
    written = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).stdout)
    kinds = [(one["is_default"], one["n_busy"]) for one in written["defaults"]]
    assert kinds == [(True, 1), (True, 2), (False, 1), (False, 2)]
    assert [one["n_threads"] for one in written["defaults"][2:]] == [2, 2]
    assert all(one["during"] > 0.0 and one["during_vs_one_thread_alone"] > 0.0 for one in written["defaults"])


def test_an_unknown_model_is_said_in_one_sentence() -> None:
    result = CliRunner().invoke(main, ["--model", "no-such-model.gguf"])
    assert result.exit_code != 0
    assert "error: " in result.stderr
