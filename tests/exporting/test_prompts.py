from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgespec.errors import BadInput
from edgespec.exporting.prompts import prompt_sets


def test_built_in_ones_are_many_and_judge_what_they_did_not_choose() -> None:
    sets = prompt_sets()
    both = [*sets.judging, *sets.choosing]
    assert len(sets.judging) >= 16
    assert len(sets.choosing) >= 8
    assert len(set(both)) == len(both)


def write(path: Path, *categories: str) -> Path:
    lines = [json.dumps({"id": i, "category": c, "prompt": f"{c} {i}"}) for i, c in enumerate(categories)]
    path.write_text("\n".join(lines))
    return path


def test_a_files_categories_are_in_both_sets(tmp_path: Path) -> None:
    sets = prompt_sets(write(tmp_path / "p.jsonl", *"aabbccc"))
    assert len(sets.judging) == 4
    assert len(sets.choosing) == 3
    assert not set(sets.judging) & set(sets.choosing)
    assert len({one[0] for one in sets.judging}) > 1


def test_one_prompt_serves_for_both(tmp_path: Path) -> None:
    sets = prompt_sets(write(tmp_path / "p.jsonl", "a"))
    assert sets.judging == sets.choosing == ("a 0",)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"nowhere\.jsonl"):
        prompt_sets(tmp_path / "nowhere.jsonl")
