from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from edgespec.choice import DraftChoice
from edgespec.engine import Engine, GenerateOptions
from tools.asking import Asker
from tools.json_cases import CASES
from tools.json_mode import Pair, Said, ask, figures, main, summary, table

PLAIN = Said((1, 2, 3), 4, 4, 2.0, is_valid=True, is_cut=False, accepted={})
DRAFTED = Said((1, 2, 3), 4, 2, 1.0, is_valid=True, is_cut=False, accepted={"forced": 1, "suffix": 1})
CUT = Said((1, 2), 2, 2, 1.0, is_valid=False, is_cut=True, accepted={"forced": 2})


def test_figures_of_a_schema_and_of_all() -> None:
    first, both = summary({"a": [Pair(PLAIN, DRAFTED)], "b": [Pair(PLAIN, CUT)]})[0::2]
    assert (first.schema, first.n_objects, first.n_same_tokens) == ("a", 1, 1)
    assert (first.plain.passes_per_token, first.drafted.passes_per_token) == (1.0, 0.5)
    assert (first.plain.seconds_per_token, first.drafted.seconds_per_token) == (0.5, 0.25)
    assert (first.all_valid, first.all_same) == (True, True)
    assert (both.schema, both.n_objects, both.n_same_tokens) == ("all", 2, 1)
    assert (both.plain.n_valid, both.drafted.n_valid, both.drafted.n_cut) == (2, 1, 1)
    assert (both.all_valid, both.all_same) == (False, False)
    assert both.accepted == {"forced": 3, "suffix": 1}


def test_the_table_has_a_line_for_each() -> None:
    console = Console(width=200)
    with console.capture() as shown:
        console.print(table([figures("person", [Pair(PLAIN, DRAFTED)])]))
    words = shown.get().splitlines()[-2].replace("│", " ").split()
    assert words == ["person", "1", "1/1", "1", "0", "4", "1.000", "0.500", "0.500", "forced", "1,", "suffix", "1"]


def test_an_answer_without_a_grammar_is_not_valid(engine: Engine) -> None:
    said = ask(Asker(engine), CASES[0], "the dog", GenerateOptions(max_tokens=8, draft=DraftChoice.OFF))
    assert not said.is_valid
    assert said.n_passes > 0
    assert said.accepted == {}


def test_two_schemas_are_measured(toy: Path) -> None:
    arguments = ["--model", str(toy), "--schemas", "2", "--prompts", "1", "--fixed", "--threads", "1"]
    done = CliRunner().invoke(main, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [one["schema"] for one in found] == ["person", "book", "all"]
    every = found[-1]
    assert (every["n_objects"], every["n_same_tokens"]) == (2, 2)
    assert (every["plain"]["n_valid"], every["drafted"]["n_valid"]) == (2, 2)
    assert every["plain"]["passes_per_token"] == pytest.approx(1.0)
    assert every["drafted"]["passes_per_token"] < 0.9
    assert every["accepted"]["forced"] > 0
    alone = CliRunner().invoke(main, [*arguments, "--schemas", "1", "--forced-only", "--json"])
    assert [list(one["accepted"]) for one in json.loads(alone.stdout)] == [["forced"], ["forced"]]


def test_an_answer_that_is_cut_is_a_failure_and_an_untuned_model_is_named(toy: Path) -> None:
    arguments = ["--model", str(toy), "--schemas", "1", "--prompts", "1", "--max-tokens", "4", "--threads", "1"]
    done = CliRunner().invoke(main, [*arguments, "--fast", "--forced-only"])
    assert done.exit_code == 1, done.output
    assert "0/0" in done.stdout
    assert "give --fixed" in done.stderr
