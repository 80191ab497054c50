from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.bench.prompts import Prompt, load_prompts, spread
from edgespec.errors import BadInput


def written(path: Path, *lines: object) -> Path:
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), "utf-8")
    return path


def test_both_forms_of_a_line_are_read_by_category(tmp_path: Path) -> None:
    file = written(
        tmp_path / "p.jsonl",
        {"question_id": 7, "category": "math", "turns": ["2 + 2?", "and twice that?"]},
        "",
        {"category": "prose", "prompt": "Once upon a time"},
        {"id": "x", "category": "math", "prompt": "3 + 3?"},
    )
    assert load_prompts(file) == {
        "math": (Prompt("7", "math", "2 + 2?"), Prompt("x", "math", "3 + 3?")),
        "prose": (Prompt("3", "prose", "Once upon a time"),),
    }


def test_the_order_of_eight_is_bit_reversed() -> None:
    assert spread(8) == [0, 4, 2, 6, 1, 5, 3, 7]


@given(st.integers(1, 300), st.data())
def test_every_beginning_lies_evenly_over_the_whole(n: int, data: st.DataObject) -> None:
    order = spread(n)
    assert sorted(order) == list(range(n))
    # 2^k of them at least: then each of 2^k equal stretches of the file that can hold one has one.
    k = data.draw(st.integers(0, n.bit_length() - 1))
    n_bits = max(1, (n - 1).bit_length())
    stretch = 1 << (n_bits - k) if k <= n_bits else 1
    taken = order[: 1 << k]
    for start in range(0, n - stretch + 1, stretch):
        assert any(start <= one < start + stretch for one in taken)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "line 2"),
        ({"category": "a"}, "line 2"),
        ({"turns": ["x"]}, "line 2"),
        ({"category": "a", "turns": []}, "line 2"),
        ({"category": "a", "prompt": "  "}, "empty"),
        ({"category": "a", "prompt": 3}, "empty"),
        ("[1]", "line 2"),
        ({"id": "1", "category": "a", "prompt": "x"}, "twice"),
    ],
)
def test_a_line_that_is_no_prompt_is_named(tmp_path: Path, line: object, complaint: str) -> None:
    file = written(tmp_path / "p.jsonl", {"id": "1", "category": "a", "prompt": "x"}, line)
    with pytest.raises(BadInput, match=complaint):
        load_prompts(file)


def test_a_file_without_prompts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no prompt in it"):
        load_prompts(written(tmp_path / "p.jsonl", ""))
    with pytest.raises(BadInput, match="nowhere"):
        load_prompts(tmp_path / "nowhere")
    (tmp_path / "latin").write_bytes(b"\xe9\n")
    with pytest.raises(BadInput, match="utf-8"):
        load_prompts(tmp_path / "latin")
