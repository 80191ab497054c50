from __future__ import annotations

import json
from dataclasses import replace

from edgespec.check.compare import Comparison, Result, Shown, Token
from edgespec.check.report import Report, to_fields, to_lines
from edgespec.engine import GenerateOptions
from edgespec.spec.law import SamplingSettings

SAME = Comparison("1", "tales", Result.IDENTICAL, 10, 20, 20, 15, 8, 5, None)
SHOWN = Shown(3, Token(7, "a"), Token(None, ""), 0.25, (1, 4), "strict", "tie at token 3: all of it")
TIE = replace(SAME, id="2", result=Result.TIE, difference=SHOWN)
BUG = replace(TIE, id="3", result=Result.BUG, difference=replace(SHOWN, gap=None, replay="", line="bug at token 3"))
REPORT = Report("toy", GenerateOptions(max_tokens=20), (SAME, TIE, BUG))


def test_the_object_has_what_programs_rely_on() -> None:
    fields = json.loads(json.dumps(to_fields(REPORT)))
    assert {key: fields[key] for key in ("prompts", "identical", "ties", "bugs")} == {
        "prompts": 3,
        "identical": 1,
        "ties": 1,
        "bugs": 1,
    }
    tie, bug = fields["differences"]
    assert (tie["id"], tie["verdict"], tie["position"], tie["gap"]) == ("2", "tie", 3, 0.25)
    assert (tie["plain"], tie["drafted"]) == ({"id": 7, "text": "a"}, {"id": None, "text": ""})
    assert (bug["verdict"], bug["gap"]) == ("bug", None)
    assert [one["result"] for one in fields["comparisons"]] == ["identical", "tie", "bug"]
    assert (fields["model"], fields["draft"], fields["exact"], fields["left"]) == ("toy", "auto", False, 0)


def test_a_line_for_each_difference_and_the_counts() -> None:
    assert to_lines(REPORT) == [
        "prompt 2 (tales): tie at token 3: all of it",
        "prompt 3 (tales): bug at token 3",
        "3 prompts, fast, greedy, draft auto: 1 identical, 1 tie, 1 bug",
        "drafted in 3 of 3 answers: 15 of 24 drafted tokens accepted",
    ]
    warm = GenerateOptions(SamplingSettings(temperature=0.8, seed=4), exact=True)
    first = to_lines(replace(REPORT, options=warm, comparisons=(SAME,)))[0]
    assert first == "1 prompt, exact, temperature 0.8, seed 4, draft auto: 1 identical, 0 ties, 0 bugs"


def test_what_weakens_the_result_is_said() -> None:
    undrafted = replace(REPORT, comparisons=(replace(SAME, n_drafted=0),), skipped=("9",), n_left=2)
    lines = to_lines(undrafted)
    assert "nothing was drafted" in lines[1]
    assert "edgespec doctor" in lines[1]
    assert "too long for the context: 9" in lines[2]
    assert lines[3] == "stopped with 2 prompts left"
    assert to_lines(replace(undrafted, comparisons=()))[1].startswith("skipped")


def test_what_could_not_be_decided_is_counted_and_said() -> None:
    report = replace(REPORT, comparisons=(SAME, replace(BUG, result=Result.UNDECIDED)))
    fields = to_fields(report)
    assert (fields["bugs"], fields["undecided"], fields["prompts"]) == (0, 1, 2)
    assert not report.has_bug
    lines = to_lines(report)
    assert lines[1].endswith("1 identical, 0 ties, 0 bugs, 1 undecided")
    assert lines[2].startswith("undecided: ")
    assert "undecided" not in "".join(to_lines(REPORT))
    assert to_fields(REPORT)["undecided"] == 0


def test_only_a_bug_is_a_failure() -> None:
    assert REPORT.has_bug
    assert not replace(REPORT, comparisons=(SAME, TIE)).has_bug
