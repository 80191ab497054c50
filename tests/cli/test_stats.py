from __future__ import annotations

import json
from dataclasses import replace

import pytest

from edgespec.cli.stats import Totals, completion_json, ending, stats_line
from edgespec.events import Completion, Finish, Notice, Timings, Usage

TIMINGS = Timings(
    prompt_seconds=0.5,
    decode_seconds=2.0,
    first_token_seconds=0.61,
    tokens_per_second=20.0,
    passes=16,
    draft_n=60,
    draft_n_accepted=24,
    drafter="given+lookup",
    exact=False,
    width_class=(),
    padded_rows=0,
    cached_prompt_tokens=3,
    seed=9,
    n_emitted=40,
)
ANSWER = Completion("text", (1, 2), Finish.STOP, Usage(10, 40), TIMINGS, (Notice("b", "late"),))


def with_timings(timings: Timings) -> Completion:
    return replace(ANSWER, timings=timings)


def test_one_line_says_what_happened() -> None:
    assert stats_line(ANSWER, 99) == (
        "20.0 tok/s · first token 0.61 s · 24/60 drafts accepted · 2.50 tokens per pass · given+lookup · seed 9"
        " · speed-up not measured"
    )


def test_plain_decoding_claims_no_drafter() -> None:
    line = stats_line(with_timings(replace(TIMINGS, draft_n=0, draft_n_accepted=0, drafter="")), 99)
    assert "nothing drafted · 2.50 tokens per pass · seed 9" in line


def test_the_price_of_exact_is_shown() -> None:
    line = stats_line(with_timings(replace(TIMINGS, exact=True, width_class=(1, 2, 3, 4, 8, 16), padded_rows=5)), 99)
    assert "exact: widths 1-4, 8, 16, 5 rows padded" in line


def test_an_answer_with_fewer_threads_says_why() -> None:
    notice = Notice("cores-taken", "other programs use 1.6 of 2 cores: running with 1 thread instead of 2")
    assert "fewer threads: cores taken by others" in stats_line(replace(ANSWER, notices=(notice,)), 99)
    assert "fewer threads" not in stats_line(ANSWER, 99)


def test_an_answer_stopped_before_its_first_pass_has_a_line_too() -> None:
    stopped = replace(ANSWER, finish=Finish.CANCELLED, usage=Usage(9, 0), timings=replace(TIMINGS, passes=0))
    line = stats_line(stopped, 99)
    assert line.startswith("stopped · ")
    assert "0.00 tokens per pass" in line


@pytest.mark.parametrize(
    ("finish", "max_tokens", "expected"),
    [
        (Finish.STOP, 40, ""),
        (Finish.CANCELLED, 100, "stopped"),
        (Finish.LENGTH, 40, "cut here after 40 tokens"),
        (Finish.LENGTH, 100, "cut here: the context is full"),
    ],
)
def test_an_unfinished_answer_says_why(finish: Finish, max_tokens: int, expected: str) -> None:
    assert ending(replace(ANSWER, finish=finish), max_tokens) == expected


def test_the_json_object_is_one_line_of_ascii() -> None:
    line = completion_json(replace(ANSWER, text="caf\u00e9\n\u4f60"), [Notice("a", "early")])
    assert line.isascii()
    assert "\n" not in line
    parsed = json.loads(line)
    assert parsed["text"] == "caf\u00e9\n\u4f60"
    assert parsed["token_ids"] == [1, 2]
    assert parsed["finish_reason"] == "stop"
    assert parsed["usage"] == {"prompt_tokens": 10, "completion_tokens": 40}
    assert parsed["timings"]["draft_n_accepted"] == 24
    assert [notice["code"] for notice in parsed["notices"]] == ["a", "b"]
    assert "logprobs" not in parsed
    assert json.loads(completion_json(ANSWER, [], {"content": []}))["logprobs"] == {"content": []}


def test_totals_are_sums() -> None:
    totals = Totals()
    assert dict(totals.rows())["speed"] == "0.0 tok/s"
    totals.add(ANSWER)
    totals.add(with_timings(replace(TIMINGS, padded_rows=4, passes=4)))
    rows = dict(totals.rows())
    assert rows["answers"] == "2, 80 tokens"
    assert rows["prompts"] == "20 tokens, 6 of them still in the cache"
    assert rows["speed"] == "20.0 tok/s"
    assert rows["drafts"] == "48/120 drafts accepted (40%)"
    assert rows["passes"] == "20, 4.00 tokens per pass"
    assert rows["padding"].startswith("4 rows")
