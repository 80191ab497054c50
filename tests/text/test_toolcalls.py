"""How calls are read, alone and as a stream, and that what a grammar allows is what is read."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.text.constraint import GrammarCompiler
from edgespec.text.grammar import Grammar
from edgespec.text.messages import Tool
from edgespec.text.toolcalls import CallForm, Spoken, call_grammar, form_of, free_grammar, n_certain, read_calls
from tests.text.toy_vocab import ToyVocabulary

NAMES = {"f", "get_time"}
F = Tool(
    "f",
    "",
    '{"properties": {"a": {"type": "integer", "minimum": 0, "maximum": 9}, "b": {"$ref": "#/$defs/B"}}, '
    '"required": ["a", "b"], "$defs": {"B": {"enum": ["x", "<tool_call>"]}}}',
)
TOOLS = (F, Tool("get_time"))


def numbered() -> Callable[[], str]:
    counter = itertools.count(1)
    return lambda: str(next(counter))


def read(text: str) -> Spoken:
    return read_calls(text, NAMES, numbered())


def found(text: str) -> tuple[str, list[tuple[str, str]]]:
    spoken = read(text)
    return spoken.text, [(call.name, call.arguments) for call in spoken.calls]


@pytest.mark.parametrize(
    ("text", "said", "calls"),
    [
        ('<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>', "", [("f", '{"a": 1}')]),
        ('Well.\n\n<tool_call>{"name":"f","arguments":{}}</tool_call>\n', "Well.", [("f", "{}")]),
        ('<tool_call>{"name": "f", "arguments": {}}', "", [("f", "{}")]),
        ('<tool_call>{"arguments": {}, "name": "f"} ', "", [("f", "{}")]),
        (
            'a <tool_call>{"name": "f", "arguments": {"é": "é"}}</tool_call>\n'
            '<tool_call>{"name": "get_time", "arguments": {}}</tool_call> b',
            "a b",
            [("f", '{"é": "é"}'), ("get_time", "{}")],
        ),
        ('{"name": "f", "parameters": {"a": "1"}}', "", [("f", '{"a": "1"}')]),
        ('\n {"type": "function", "name": "f", "parameters": {}}\n', "", [("f", "{}")]),
        ('{"name": "f", "parameters": {}}; {"name": "f", "parameters": {}}', "", [("f", "{}"), ("f", "{}")]),
        ('[{"name": "f", "arguments": {}, "id": "123456789"}]', "", [("f", "{}")]),
        ('{"name": "f", "arguments": "{\\"a\\": 1}"}', "", [("f", '{"a": 1}')]),
    ],
)
def test_calls_in_every_form(text: str, said: str, calls: list[tuple[str, str]]) -> None:
    assert found(text) == (said, calls)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " plain words ",
        '{"name": "other", "arguments": {}}',
        '{"name": "f"}',
        '{"name": "f", "arguments": 3}',
        '{"name": "f", "arguments": "a"}',
        '{"name": "f", "arguments": {"a": 1e999}}',
        '{"name": "f", "arguments": {"a": NaN}}',
        '{"name": "f", "arguments": {"a": "\\ud800"}}',
        '{"name": "f", "arguments": ' + '{"a": ' * 100 + "1" + "}" * 101,
        '{"name": "f", "arguments": {}} is how it is written',
        'So: {"name": "f", "arguments": {}}',
        "[]",
        '["f"]',
        '[{"name": "f", "arguments": {}}, {"name": "g", "arguments": {}}]',
        '<tool_call>{"name": "f", "argum',
        '<tool_call>{"name": "g", "arguments": {}}</tool_call>',
        '<tool_call>{"name": "f", "arguments": {}}</tool',
        "a <tool_call> b",
        "[" * 100_000,
    ],
)
def test_anything_else_is_text_as_it_stands(text: str) -> None:
    assert read(text) == Spoken(text)


def test_calls_before_one_that_is_wrong_are_read_and_the_rest_is_text() -> None:
    good = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    assert found(f"a{good}\n<tool_call>[]</tool_call>") == ("a\n<tool_call>[]</tool_call>", [("f", "{}")])


def test_without_functions_nothing_is_a_call() -> None:
    text = '{"name": "f", "arguments": {}}'
    assert read_calls(text, (), numbered()) == Spoken(text)


FRAGMENTS = (
    "<tool_call>", "</tool_call>", "<tool_", "<", "call>", '{"name": "f", "arguments": {}}', '{"name": "f",', "{", "[",
    "]", " ", "\n", "words", ";", "é",
)  # fmt: skip
texts = st.lists(st.sampled_from(FRAGMENTS), max_size=8).map("".join)


@settings(max_examples=400)
@given(texts)
def test_what_is_certain_is_never_taken_back(text: str) -> None:
    said = read(text).text
    reached = 0
    for n in range(len(text) + 1):
        certain = n_certain(text[:n])
        assert reached <= certain <= n
        assert said.startswith(text[:certain])
        reached = certain


def test_plain_words_come_at_once() -> None:
    assert n_certain("Hello, you") == 10
    assert n_certain("Hello ") == 5
    assert n_certain("a < b") == 5
    assert n_certain("a <tool") == 1


@pytest.mark.parametrize(
    ("rendered", "form"),
    [
        ('x\n<tool_call>\n{"name": "f", "arguments": {"f": 1}}\n</tool_call>', CallForm.TAGGED),
        ('{"name": "f", "parameters": {"f": 1}}', CallForm.PARAMETERS),
        ('[TOOL_CALLS] [{"name": "f", "arguments": {"f": 1}, "id": "call00000"}]', CallForm.LISTED),
        ('assistant\n{"name":"f","arguments":{"f": 1}}', CallForm.BARE),
        ('<function=f>{"f": 1}</function>', CallForm.TOLD),
        ('<tool_calls>\n[{"name": "f", "arguments": {"f": 1}}]\n</tool_calls>', CallForm.TOLD),
        ('[TOOL_CALLS][{"name": "f", "arguments": {"f": 1}}]</s>', CallForm.LISTED),
        ('<s>{"name": "f", "arguments": {"f": 1}}</s>', CallForm.TOLD),
        ('<TOOL>{"name": "f", "arguments": {"f": 1}}</TOOL>', CallForm.TOLD),
        ("", CallForm.TOLD),
    ],
)
def test_the_form_of_a_template_is_seen_in_what_it_writes(rendered: str, form: CallForm) -> None:
    assert form_of(rendered, "f") is form


# -- grammars -----------------------------------------------------------------------------------------------------

VOCAB = ToyVocabulary((b'{"', b'": ', b"<tool_call>", b"name", b"</", b"}}"))


@cache
def compiler() -> GrammarCompiler:
    return GrammarCompiler(VOCAB, VOCAB.end_tokens)


def walked(grammar: Grammar, rng: random.Random, n: int = 1000) -> str | None:
    """A random text that the grammar allows; None if it did not end."""
    constraint, output = compiler().compile(grammar), list[int]()
    while len(output) < n:
        allowed = constraint.after(output).ids().tolist()
        ends = [token for token in allowed if token in VOCAB.end_tokens]
        if ends and rng.random() < 0.5:
            return b"".join(map(VOCAB.piece, output)).decode("utf-8", "replace")
        output.append(rng.choice([token for token in allowed if token not in VOCAB.end_tokens] or ends))
        if output[-1] in VOCAB.end_tokens:
            return b"".join(map(VOCAB.piece, output[:-1])).decode("utf-8", "replace")
    return None


def allows(grammar: Grammar, text: str) -> bool:
    """Whether a text can be the whole of an answer."""
    return bool(VOCAB.end_tokens & set(compiler().compile(grammar).after(VOCAB.tokenize(text)).ids().tolist()))


@pytest.mark.parametrize("form", CallForm)
@pytest.mark.parametrize("several", [False, True])
@settings(max_examples=12, deadline=None)
@given(rng=st.randoms(use_true_random=False))
def test_what_must_be_a_call_is_read_as_one(form: CallForm, several: bool, rng: random.Random) -> None:
    text = walked(call_grammar(TOOLS, form, several), rng)
    assert text is not None
    spoken = read(text)
    assert spoken.text == ""
    assert spoken.calls
    if not several or form is not CallForm.TAGGED:
        assert len(spoken.calls) == 1
    for call in spoken.calls:
        arguments = json.loads(call.arguments)
        assert set(arguments) == ({"a", "b"} if call.name == "f" else set())
        assert call.name != "f" or (0 <= arguments["a"] <= 9 and arguments["b"] in ("x", "<tool_call>"))


CALLED = '{"name": "f", "arguments": {"a": 1, "b": "x"}}'
WRONG = '{"name": "f", "arguments": {"a": 10, "b": "x"}}'


@pytest.mark.parametrize("form", [CallForm.TAGGED, CallForm.TOLD])
@pytest.mark.parametrize("several", [False, True])
def test_an_answer_is_text_or_a_call_that_fits(form: CallForm, several: bool) -> None:
    grammar = free_grammar(TOOLS, form, several)
    assert grammar is not None
    opening, closing = ("<tool_call>\n", "\n</tool_call>") if form is CallForm.TAGGED else ("", "")
    call = opening + CALLED + closing
    for text in ("words", "a < b\n{}", '{"name": "Ann"}', call):
        assert allows(grammar, text)
    assert not allows(grammar, opening + WRONG + closing)
    assert not allows(grammar, call + " words")
    assert allows(grammar, "Well.\n" + call)
    assert allows(grammar, f"{call}\n{call}") is (form is CallForm.TAGGED and several)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from([CallForm.TAGGED, CallForm.TOLD]), st.randoms(use_true_random=False))
def test_whatever_a_free_answer_says_it_ends_as_text_or_as_calls(form: CallForm, rng: random.Random) -> None:
    grammar = free_grammar(TOOLS, form, several=True)
    assert grammar is not None
    text = walked(grammar, rng)
    if text is not None:
        assert ("<tool_call>" in text) <= bool(read(text).calls)


def test_where_special_tokens_may_open_a_call_nothing_is_prescribed() -> None:
    for form in (CallForm.PARAMETERS, CallForm.LISTED, CallForm.BARE):
        assert free_grammar(TOOLS, form, several=True) is None


@pytest.mark.parametrize("form", CallForm)
def test_an_answer_that_is_no_call_can_have_a_form_of_its_own(form: CallForm) -> None:
    schema = Grammar.json_schema('{"type": "object", "properties": {"c": {"type": "boolean"}}, "required": ["c"]}')
    grammar = free_grammar(TOOLS, form, several=False, answer=schema)
    assert grammar is not None
    assert allows(grammar, '{"c": true}')
    assert not allows(grammar, "words")
    random_text = walked(call_grammar(TOOLS, form, several=False), random.Random(1))
    assert random_text is not None
    assert allows(grammar, random_text)


@pytest.mark.parametrize(
    ("parameters", "arguments", "fits"),
    [
        ("", "{}", True),
        ("", '{"x": 1}', False),
        ("{}", '{"x": 1}', False),
        ('{"properties": {"x": {"type": "integer"}}}', '{"x": 1}', True),
        ('{"properties": {"x": {"type": "integer"}}}', '{"y": 1}', False),
        ('{"properties": {}, "additionalProperties": true}', '{"y": 1}', True),
        ('{"anyOf": [{"properties": {"x": {"type": "integer"}}, "required": ["x"]}]}', '{"x": 1}', True),
        ('{"properties": {"x": {"type": "array", "uniqueItems": true}}}', '{"x": [1, 1]}', True),
    ],
)
def test_arguments_are_those_that_the_schema_names(parameters: str, arguments: str, fits: bool) -> None:
    grammar = call_grammar([Tool("f", "", parameters)], CallForm.TOLD, several=False)
    assert allows(grammar, f'{{"name": "f", "arguments": {arguments}}}') is fits
