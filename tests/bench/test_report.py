from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from edgespec.bench.journal import Journal
from edgespec.bench.matches import Matches
from edgespec.bench.report import Report, as_json, as_match_table, as_table, ledger_lines, report
from edgespec.bench.runs import Runs
from edgespec.engine import DraftChoice
from edgespec.spec.ledger import Entry
from tests.bench.made import made

ARMS = ("off", "auto")


def three_prompts() -> Runs:
    """Two of category x, twice and 1.25 times as fast with drafts; one of y, a circle, 4 times as fast."""
    return Runs(
        [
            made("1", "off", category="x", decode_seconds=1.0),
            made("1", "auto", category="x", decode_seconds=0.5, passes=5, n_drafted=10, n_accepted=5),
            made("2", "off", category="x", decode_seconds=1.0),
            made("2", "auto", category="x", decode_seconds=0.8, passes=8, n_drafted=10, n_accepted=2, digest="e"),
            made("3", "off", category="y", decode_seconds=1.0, loops=True),
            made("3", "auto", category="y", decode_seconds=0.25, passes=2, n_drafted=8, n_accepted=8, loops=True),
        ]
    )


def of(runs: Runs, folder: Path) -> Report:
    return report(runs, ARMS, folder, 2, True)


def test_the_keys_that_programs_use(tmp_path: Path) -> None:
    found = json.loads(json.dumps(as_json(of(three_prompts(), tmp_path))))
    assert list(found["by_category"]) == ["x", "y"]
    assert list(found["by_category"]["x"]) == list(found["overall"]) == ["off", "auto"]
    x = found["by_category"]["x"]["auto"]
    assert x["speedup"] == pytest.approx(2.0 / 1.3)
    assert x["tokens_per_second"] == pytest.approx(20 / 1.3)
    assert x["tokens_per_pass"] == pytest.approx(20 / 13)
    assert x["acceptance"] == pytest.approx(7 / 20)
    assert x["same_text"] == 0.5
    assert (x["low"], x["high"]) == pytest.approx((0.5, 0.8))
    assert (x["total_time_ratio"], x["total_low"], x["total_high"]) == pytest.approx((0.65, 0.5, 0.8))
    assert (x["n_tokens"], x["n_prompts"], x["n_pairs"]) == (20, 2, 2)
    y = found["by_category"]["y"]["auto"]
    assert (y["speedup"], y["low"], y["high"]) == (pytest.approx(4.0), None, None)
    overall = found["overall"]["auto"]
    assert {"total_time_ratio", "total_low", "total_high"} <= set(overall)
    assert overall["speedup"] == pytest.approx(3.0 / 1.55)
    assert overall["mean_speedup"] == pytest.approx((2.0 / 1.3 + 4.0) / 2)
    assert found["overall"]["off"]["speedup"] == 1.0
    assert (found["complete"], found["skipped_lines"], found["ledger"]) == (True, 2, {})


def test_circles_are_left_out_of_every_arm(tmp_path: Path) -> None:
    straight = json.loads(json.dumps(as_json(of(three_prompts(), tmp_path))))["without_loops"]
    assert list(straight["by_category"]) == ["x"]
    assert list(straight["overall"]) == ["off", "auto"]
    runs = three_prompts()
    runs.add(made("4", "off", category="z"))
    runs.add(made("4", "auto", category="z", loops=True))  # only one of the two answers is a circle
    part = of(runs, tmp_path).without_loops
    assert list(part.by_category) == ["x"]
    assert {arm: one.total.n_tokens for arm, one in part.overall.items()} == {"off": 20, "auto": 20}


def shown(table: Table) -> str:
    stream = io.StringIO()
    Console(file=stream, width=200).print(table)
    return stream.getvalue()


def printed(found: Report) -> str:
    return shown(as_table(found))


def test_the_table_has_a_row_for_each_category_and_arm(tmp_path: Path) -> None:
    lines = printed(of(three_prompts(), tmp_path)).splitlines()
    rows = [line.split() for line in lines]
    assert rows[1] == ["x", "off", "10.0", "1.00", "20"]
    assert rows[2] == [
        "auto", "15.4", "1.54x", "0.500-0.800", "1.62x", "1.44-1.81", "0.650", "0.500-0.800", "1.54", "35%", "20",
    ]  # fmt: skip
    assert rows[4][:3] == ["auto", "40.0", "4.00x"]
    assert any(line.startswith("  mean of categories  auto") and "2.77x" in line for line in lines)
    assert "without loops" in printed(of(three_prompts(), tmp_path))


def test_acceptance_by_match_length_is_of_all_answers_together(tmp_path: Path) -> None:
    runs = three_prompts()
    runs.add(made("1", "auto", category="x", matches=Matches((0, 0, 4, 0, 0, 0, 0, 0), (0, 0, 1, 0, 0, 0, 0, 0))))
    runs.add(made("2", "auto", category="x", matches=Matches((0, 0, 4, 0, 0, 0, 0, 2), (0, 0, 3, 0, 0, 0, 0, 2))))
    runs.add(made("3", "auto", loops=True, category="y", matches=Matches((0,) * 7 + (8,), (0,) * 7 + (6,))))
    found = of(runs, tmp_path)
    rows = [line.split() for line in shown(as_match_table(found)).splitlines() if line]
    assert rows[1] == ["all", "auto", "50%", "8", "80%", "10"]
    assert rows[2] == ["without", "loops", "auto", "50%", "8", "100%", "2"]
    told = json.loads(json.dumps(as_json(found)))["by_category"]["x"]["auto"]["by_match_length"]
    assert told[2] == {"from": 2, "n_tried": 8, "n_right": 4}
    assert [one["from"] for one in told] == [0, 1, 2, 3, 4, 6, 8, 16]
    assert as_match_table(of(Runs(), tmp_path)).row_count == 0


def test_nothing_measured_is_an_empty_report(tmp_path: Path) -> None:
    found = of(Runs(), tmp_path)
    assert found.all.overall == {}
    assert as_json(found)["by_category"] == {}
    assert printed(found).strip().startswith("drafts")


def test_arms_that_lack_answers_are_compared_as_far_as_they_go(tmp_path: Path) -> None:
    found = of(Runs([made("1"), made("2"), made("2", "auto")]), tmp_path)
    assert found.all.overall["off"].total.n_prompts == 2
    assert found.all.overall["auto"].total.n_prompts == 1


@pytest.mark.parametrize(
    ("entry", "kept"), [(Entry(1.0, 0.0, 1, 1.0), True), (Entry(50.0, 0.0, 1, 1.0, 50.0, 49.0), False)]
)
def test_recorded_ledgers_are_replayed(tmp_path: Path, entry: Entry, kept: bool) -> None:
    journal = Journal()
    journal.note(DraftChoice.AUTO, entry)
    journal.flush(tmp_path)
    found = of(three_prompts(), tmp_path)
    ledger = as_json(found)["ledger"]
    assert isinstance(ledger, dict)
    auto = ledger["auto"]
    assert isinstance(auto, dict)
    assert (auto["kept"], auto["rounds"], auto["refused"]) == (kept, 1, 0 if kept else 1)
    (line,) = ledger_lines(found)
    assert line.startswith("ledger of auto: 1 rounds replayed, ")
    assert ("did NOT" in line) is not kept
