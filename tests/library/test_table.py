"""Typed tables: right values come through, wrong ones are named with place and key."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edgespec.errors import BadInput
from edgespec.library.table import Table


def table(**entries: object) -> Table:
    return Table("card.toml", entries, "mend it")


def test_values_come_through_and_are_used_up() -> None:
    entries = table(name="x", size=3, on=True, words=["a"], inner={"k": "v"}, rows=[{"k": "1"}, {"k": "2"}])
    assert (entries.text("name"), entries.count("size"), entries.flag("on", False)) == ("x", 3, True)
    assert entries.texts("words") == ("a",)
    inner = entries.table("inner")
    assert inner is not None
    assert inner.text("k") == "v"
    assert [row.text("k") for row in entries.tables("rows")] == ["1", "2"]
    entries.finish()


def test_defaults() -> None:
    entries = table()
    assert (entries.text("a", ""), entries.count("b", 7), entries.flag("c", True)) == ("", 7, True)
    assert (entries.texts("d"), entries.tables("e"), entries.table("f")) == ((), (), None)


@pytest.mark.parametrize(
    ("read", "why"),
    [
        (lambda t: t.text("missing"), "'missing': a text is needed, and it is missing"),
        (lambda t: t.text("number"), "a text is needed, not 1"),
        (lambda t: t.text("empty"), "it is empty"),
        (lambda t: t.count("word"), "whole number"),
        (lambda t: t.count("true"), "whole number"),
        (lambda t: t.count("negative"), "whole number"),
        (lambda t: t.flag("number", False), "true or false"),
        (lambda t: t.texts("word"), "list of texts"),
        (lambda t: t.texts("mixed"), "list of texts"),
        (lambda t: t.tables("mixed"), "list of tables"),
        (lambda t: t.table("number"), "a table is needed"),
        (lambda t: t.finish(), "no such key"),
    ],
)
def test_a_wrong_value_is_named(read: Callable[[Table], object], why: str) -> None:
    wrong = table(number=1, word="w", true=True, negative=-1, empty="", mixed=["a", 1])
    with pytest.raises(BadInput, match=why) as raised:
        read(wrong)
    assert "card.toml" in raised.value.what


def test_inner_tables_say_where_they_are() -> None:
    with pytest.raises(BadInput, match=r"card\.toml, rows 2, key 'k'"):
        table(rows=[{}, {"k": 1}]).tables("rows")[1].text("k")
