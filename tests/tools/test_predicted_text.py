from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgespec.events import Completion, Finish, Timings, Usage
from tools.predicted_text import Answers, damaged, figures, main, ratios, seconds_per_token, summary, table

TIMINGS = Timings(
    prompt_seconds=0.0,
    decode_seconds=1.0,
    first_token_seconds=0.1,
    tokens_per_second=4.0,
    passes=2,
    draft_n=6,
    draft_n_accepted=3,
    drafter="given",
    exact=False,
    width_class=(),
    padded_rows=0,
    cached_prompt_tokens=0,
    seed=0,
)


def completion(seconds: float, token_ids: tuple[int, ...] = (1, 2, 3, 4)) -> Completion:
    timings = replace(TIMINGS, decode_seconds=seconds)
    return Completion("text", token_ids, Finish.LENGTH, Usage(1, len(token_ids)), timings, ())


def two_repeats(exact: bool = False) -> Answers:
    plain = tuple(map(completion, (4.0, 4.0, 3.0, 5.0)))
    predicted = tuple(map(completion, (1.0, 3.0, 1.0, 1.0)))
    return Answers("q", exact, plain, predicted)


def test_about_every_40th_word_is_replaced_and_nothing_else() -> None:
    text = "\n".join(f"word{line} goes  on\tand on{line} ." for line in range(60))
    changed = damaged(text, random.Random(1))
    pairs = list(zip(text.split(" "), changed.split(" "), strict=True))
    n_words = len(text.split())
    n_replaced = sum(1 for a, b in zip(text.split(), changed.split(), strict=True) if a != b)
    assert n_words / 50 <= n_replaced <= n_words / 30 + 1
    assert sum(1 for a, b in pairs if a != b) == n_replaced
    assert set(changed.split()) <= set(text.split())


def test_damage_is_the_same_for_the_same_seed() -> None:
    text = "a b c d e f g h i j " * 20
    assert damaged(text, random.Random("s")) == damaged(text, random.Random("s"))
    assert damaged(text, random.Random("s")) != damaged(text, random.Random("t"))


@pytest.mark.parametrize("text", ["", " ", "one", "one one one " * 50])
def test_a_text_without_two_different_words_stays(text: str) -> None:
    assert damaged(text, random.Random(1)) == text


def test_a_ratio_is_of_one_repeat_and_per_token() -> None:
    assert ratios(two_repeats()) == [2.0, 4.0]
    assert seconds_per_token(completion(2.0)) == 0.5
    assert seconds_per_token(completion(2.0, ())) == 2.0


def test_figures() -> None:
    found = figures("q", [two_repeats()])
    assert (found.mode, found.median_ratio, found.min_ratio, found.max_ratio) == ("fast", 3.0, 2.0, 4.0)
    assert (found.tokens_per_pass, found.acceptance, found.plain_ms, found.n_tokens) == (2.0, 0.5, 1000.0, 4)
    assert found.same_tokens


def test_one_answer_that_says_something_else_is_noticed() -> None:
    one = two_repeats(exact=True)
    other = replace(one, predicted=(*one.predicted[:-1], completion(1.0, (1, 2, 3, 5))))
    assert figures("q", [one]).same_tokens
    assert not figures("q", [other]).same_tokens
    assert not figures("all", [one, other]).same_tokens


def test_the_summary_ends_with_all_questions_of_each_mode() -> None:
    found = summary([two_repeats(), two_repeats(exact=True)])
    assert [(one.question, one.mode) for one in found] == [
        ("q", "fast"),
        ("q", "exact"),
        ("all", "fast"),
        ("all", "exact"),
    ]
    assert table(found).splitlines()[1].split() == [
        "q",
        "fast",
        "3.00",
        "2.00",
        "4.00",
        "2.00",
        "0.50",
        "1000.00",
        "4",
        "yes",
    ]


def test_a_run(questions: Path, toy: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    arguments = ["--prompts", str(questions), "--model", str(toy), "--n-prompts", "2", "--max-tokens", "60"]
    arguments += ["--repeats", "1", "--threads", "1", "--no-extra-buffers", "--max-nodes", "7", "--json", str(out)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("1 threads, extra buffers off, up to 7 nodes a pass")
    written = json.loads(out.read_text(encoding="utf-8"))
    assert len(written["figures"]) == 6
    exact = written["figures"][-1]
    assert (exact["mode"], exact["same_tokens"]) == ("exact", True)
    assert exact["tokens_per_pass"] > 2.0
