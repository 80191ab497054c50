from __future__ import annotations

import json

import pytest

from edgespec.errors import BadInput
from edgespec.text.grammar import Grammar, GrammarKind


def test_a_schema_is_kept_as_it_was_written() -> None:
    text = '{"type" :\n "object"}'
    grammar = Grammar.json_schema(text, "--json-schema a.json")
    assert (grammar.kind, grammar.text, grammar.name) == (GrammarKind.JSON_SCHEMA, text, "--json-schema a.json")


def test_any_object_is_a_schema_too() -> None:
    grammar = Grammar.json_object()
    assert json.loads(grammar.text) == {"type": "object"}
    assert grammar == Grammar.json_object()
    assert grammar.name == "the JSON schema"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"type":', "line 1, column 9"),
        ("", "it is no JSON"),
        ("\n\n{]", "line 3, column 2"),
        ("[1]", "but a list"),
        ("true", "but true or false"),
        ("null", "but null"),
        ('"x"', "but a text"),
        ("3.5", "but a number"),
        ("[" * 200_000, "nested too deeply"),
    ],
)
def test_what_is_no_schema_is_refused_with_the_place(text: str, why: str) -> None:
    with pytest.raises(BadInput) as caught:
        Grammar.json_schema(text, "--json-schema a.json")
    assert caught.value.what == "--json-schema a.json"
    assert why in caught.value.why


def test_an_empty_grammar_is_refused() -> None:
    with pytest.raises(BadInput, match="it is empty"):
        Grammar.lark(" \n")
    assert Grammar.lark('start: "a"').name == "the grammar"
