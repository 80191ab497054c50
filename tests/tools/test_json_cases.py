from __future__ import annotations

import json

import pytest

from edgespec.engine import Grammar
from tools.json_cases import CASES, TOPICS, Flag, OneOf, Record, Some, Text, Whole


def test_there_are_ten_schemas_and_twenty_topics() -> None:
    assert len({case.name for case in CASES}) == 10
    assert len(set(TOPICS)) == 20
    for case in CASES:
        assert case.question.format("TOPIC").count("TOPIC") == 1
        Grammar.json_schema(json.dumps(case.shape.schema()))


def test_a_shape_tells_what_it_allows() -> None:
    shape = Record({"a": Text(3), "b": Whole(0, 9), "c": Flag(), "d": OneOf(("x", "y")), "e": Some(Text(1), 1, 2)})
    good = {"a": "abc", "b": 9, "c": False, "d": "x", "e": ["1", "2"]}
    assert shape.allows(good)
    wrong: list[tuple[str, object]] = [("a", ""), ("a", "abcd"), ("a", 1), ("b", 10), ("b", -1), ("b", True)]
    wrong += [("b", 1.5), ("c", 0), ("d", "z"), ("d", ["x"]), ("e", []), ("e", ["1", "2", "3"]), ("e", ["12"])]
    wrong += [("e", "1"), ("other", 1)]
    for name, value in wrong:
        assert not shape.allows({**good, name: value}), (name, value)
    assert not shape.allows({name: value for name, value in good.items() if name != "c"})
    assert not shape.allows([])


@pytest.mark.parametrize(("text", "fits"), [("AB-1234", True), ("AB-1234\n", False), ("xAB-1234", False)])
def test_a_pattern_is_of_the_whole_text(text: str, fits: bool) -> None:
    assert Text(pattern="[A-Z]{2}-[0-9]{4}").allows(text) == fits


def test_text_that_is_no_json_is_not_valid() -> None:
    assert CASES[0].is_valid('{"name": "A", "age": 1, "job": "b", "married": true}')
    assert not CASES[0].is_valid('{"name": "A", "age": 1, "job": "b", "married": tr')
    assert not CASES[0].is_valid("")
