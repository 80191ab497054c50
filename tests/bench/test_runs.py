from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.bench.matches import STARTS, Matches
from edgespec.bench.plan import Turn
from edgespec.bench.prompts import Prompt
from edgespec.bench.runs import ANSWERS, HEAD, Identity, Measured, RunFolder, Runs
from edgespec.errors import BadInput, DiskFull
from tests.bench.made import made

IDENTITY = Identity("model", "library", "machine", "{}", "prompts", ("off", "auto"), 64, False, "{}", "tuning", "code")
A = Prompt("a", "c", "x")


def turn(prompt: Prompt = A, repeat: int = 0) -> Turn:
    return Turn(prompt, repeat, ("off", "auto"))


def both(prompt: str = "a", repeat: int = 0) -> list[Measured]:
    return [made(prompt, arm, repeat=repeat) for arm in ("off", "auto")]


COUNTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=len(STARTS), max_size=len(STARTS))
MATCHES = COUNTS.map(lambda pairs: Matches(tuple(map(max, pairs)), tuple(map(min, pairs))))


@given(
    st.builds(
        Measured,
        *([st.text()] * 3),
        *([st.integers(0, 9)] * 4),
        *([st.floats(0.001, 9.0)] * 3),
        *([st.integers(0, 9)] * 3),
        st.booleans(),
        *([st.text()] * 2),
        st.floats(0.0, 9.0),
        MATCHES,
    )
)
def test_an_answer_comes_back_from_its_line(one: Measured) -> None:
    line = one.to_line()
    assert "\n" not in line
    assert Measured.from_line(line) == one


def test_what_was_kept_is_there_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "deep" / "run", IDENTITY)
    folder.add(both())
    folder.add(both(repeat=1))
    again = RunFolder(tmp_path / "deep" / "run", IDENTITY)
    assert list(again.runs) == list(folder.runs) == [*both(), *both(repeat=1)]
    assert again.n_foreign == 0
    assert again.runs.has(turn())
    assert not again.runs.has(turn(repeat=2))
    assert not again.runs.has(Turn(A, 0, ("off", "auto", "lookup")))


def test_a_turn_asked_again_replaces_what_was_left_of_it() -> None:
    runs = Runs([made("a", "off"), *both("b")])
    assert not runs.has(turn())
    assert runs.tokens_of(A, "off") == 10
    assert runs.tokens_of(A, "auto") == 0
    runs.add(made("a", "off", n_tokens=7))
    runs.add(made("a", "auto"))
    assert runs.has(turn())
    assert runs.tokens_of(A, "off") == 7
    assert len(list(runs)) == 4


def test_lines_that_are_no_answers_are_passed_over_and_counted(tmp_path: Path) -> None:
    RunFolder(tmp_path, IDENTITY).add(both())
    whole = json.loads(made("b").to_line())
    foreign = [
        "hello",
        "[1, 2]",
        "7",
        json.dumps({**whole, "extra": 1}),
        json.dumps({key: value for key, value in whole.items() if key != "arm"}),
        json.dumps({**whole, "n_tokens": "ten"}),
        json.dumps({**whole, "decode_seconds": 0.0}),
        json.dumps({**whole, "total_seconds": 0.0}),
        json.dumps({**whole, "n_tokens": -1}),
        json.dumps({**whole, "matches": 3}),
        json.dumps({**whole, "matches": {"n_tried": [0], "n_right": [0]}}),
        json.dumps({key: value for key, value in whole.items() if key != "matches"}),
        "[" * 100_000,
    ]
    with (tmp_path / ANSWERS).open("ab") as stream:
        stream.write("\n".join(foreign).encode() + b"\n\xff\xfe\n\n")
        stream.write(made("b").to_line().encode()[:40])  # cut short, without an end
    folder = RunFolder(tmp_path, IDENTITY)
    assert folder.n_foreign == len(foreign) + 2
    assert list(folder.runs) == both()
    folder.add(both("c"))  # begins a line of its own
    again = RunFolder(tmp_path, IDENTITY)
    assert list(again.runs) == [*both(), *both("c")]
    assert again.n_foreign == folder.n_foreign


def test_another_measurement_is_not_mixed_in(tmp_path: Path) -> None:
    RunFolder(tmp_path, IDENTITY).add(both())
    with pytest.raises(BadInput, match=r"other arms, max_tokens; give another folder"):
        RunFolder(tmp_path, replace(IDENTITY, max_tokens=9, arms=("off",)))
    others = replace(IDENTITY, tuning="untuned", code="changed", drafters=("hostile",))
    with pytest.raises(BadInput, match="other tuning, code, drafters;"):
        RunFolder(tmp_path, others)
    assert Identity.from_text(others.to_text()) == others
    (tmp_path / HEAD).write_text("{}")
    with pytest.raises(BadInput, match="no measurement"):
        RunFolder(tmp_path, IDENTITY)
    (tmp_path / HEAD).unlink()
    with pytest.raises(BadInput, match="is gone"):
        RunFolder(tmp_path, IDENTITY)


def test_a_place_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadInput, match="--out"):
        RunFolder(tmp_path / "file", IDENTITY)


def test_a_folder_that_is_lost_meanwhile(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run", IDENTITY)
    (tmp_path / "run" / HEAD).unlink()
    (tmp_path / "run").rmdir()
    with pytest.raises(DiskFull):
        folder.add(both())
    assert list(folder.runs) == []
