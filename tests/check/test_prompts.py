from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgespec.bench.prompts import Prompt
from edgespec.check.prompts import built_in, choose_prompts, in_turn
from edgespec.errors import BadInput

PROMPTS = {
    "sums": (Prompt("1", "sums", "one"), Prompt("2", "sums", "two"), Prompt("3", "sums", "three")),
    "tales": (Prompt("4", "tales", "four"),),
}


@pytest.mark.parametrize(
    ("per_category", "n", "expected"),
    [(None, None, "1423"), (1, None, "14"), (2, None, "142"), (None, 2, "14"), (1, 9, "14"), (2, 1, "1")],
)
def test_categories_are_taken_in_turn(per_category: int | None, n: int | None, expected: str) -> None:
    assert "".join(one.id for one in in_turn(PROMPTS, per_category, n)) == expected


def test_a_file_is_read_as_for_bench(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    lines = [{"question_id": i, "category": "a", "turns": [f"text {i}", "then?"]} for i in range(3)]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    assert {one.text for one in choose_prompts(path)} == {"text 0", "text 1", "text 2"}
    assert choose_prompts(path, n=1) == [Prompt("0", "a", "text 0")]
    with pytest.raises(BadInput, match="missing"):
        choose_prompts(tmp_path / "missing.jsonl")


def test_the_built_in_prompts_are_of_several_kinds() -> None:
    prompts = choose_prompts(None)
    assert len({one.id for one in prompts}) == len(prompts) >= 8
    assert {one.category for one in choose_prompts(None, per_category=1)} == set(built_in())
    assert len(choose_prompts(None, n=3)) == 3
