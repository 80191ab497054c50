"""The plain twin of a constraint is a new matcher that reads the whole output."""

from __future__ import annotations

import json
import random
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher, LLParserLimits

from edgespec.errors import BadInput, EngineFailure
from edgespec.spec.allowed import ForcedTokens, Forcing
from edgespec.text.constraint import Constraint, GrammarCompiler, source
from edgespec.text.grammar import Grammar
from edgespec.text.spelling import TokenTree
from tests.text.toy_vocab import ToyVocabulary

# Pieces as real vocabularies have them: they reach over the borders of a JSON text's parts.
TOY = ToyVocabulary((b'{"', b'":', b' "', b'",', b'"}', b"name", b"age", b": ", b', "', b"tr", b"ue", b"an", b"x"))
EOS, END = sorted(TOY.end_tokens)
SPECIALS = sorted(TOY.special_tokens.values())

PERSON = """{"type": "object", "properties": {"name": {"type": "string", "maxLength": 6}, "age": {"type": "integer",
    "minimum": 0, "maximum": 120}, "adult": {"type": "boolean"}}, "required": ["name", "age", "adult"],
    "additionalProperties": false}"""
FREE = '{"whitespace_flexible": true, "key_separator": ":", "item_separator": ","}'
GRAMMARS = (
    Grammar.json_schema(PERSON),
    Grammar.json_schema('{"enum": ["tree", "true", "trunk", 1]}'),
    Grammar.json_schema('{"type": "array", "items": {"type": "boolean"}, "maxItems": 3}'),
    Grammar.json_object(),
    Grammar.lark('start: "an" ("an" | "ana" | "x")* "!"'),
    Grammar.lark("start: /(é|name){1,3}/"),
)


@cache
def compiler() -> GrammarCompiler:
    return GrammarCompiler(TOY, TOY.end_tokens)


def spelled(tokens: list[int]) -> str:
    return b"".join(TOY.piece(token) for token in tokens).decode()


def fresh(grammar: Grammar, output: list[int]) -> list[int]:
    """The twin: what may follow, by a matcher that has read this output token by token and nothing else ever."""
    matcher = LLMatcher(TokenTree(TOY, TOY.end_tokens).tokenizer, source(grammar, LLMatcher), log_level=0)
    for token in output:
        if not matcher.validate_tokens([token]):
            return []
        assert matcher.consume_token(token)
    bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), np.uint8), bitorder="little")
    return [int(token) for token in np.flatnonzero(bits)]


def random_output(grammar: Grammar, rng: random.Random, n: int) -> list[int]:
    """Tokens that the grammar allows, up to `n` of them, perhaps with an end token last."""
    constraint, output = compiler().compile(grammar), list[int]()
    while len(output) < n and not (output and output[-1] in TOY.end_tokens):
        output.append(rng.choice(constraint.after(output).ids().tolist()))
    return output


@st.composite
def walks(draw: st.DrawFn) -> tuple[Grammar, list[list[int]]]:
    """A grammar and outputs to ask about in this order: allowed ones, their prefixes, branches off them, rubbish."""
    grammar = draw(st.sampled_from(GRAMMARS))
    rng = random.Random(draw(st.integers(0, 2**32)))
    asked: list[list[int]] = [[]]
    for _ in range(draw(st.integers(1, 6))):
        base = rng.choice(asked)[: rng.randrange(24)]
        kind = rng.randrange(4)
        if kind == 0:
            asked.append(random_output(grammar, rng, rng.randrange(24)))
        elif kind == 1:
            asked.append(base)
        elif kind == 2:
            asked.append([*base, rng.randrange(TOY.n_vocab)])
        else:
            asked.append([*base, *rng.choice(asked)[-5:]])
    return grammar, asked


@settings(max_examples=120)
@given(walks(), st.randoms(use_true_random=False))
def test_what_may_follow_depends_on_the_output_alone(case: tuple[Grammar, list[list[int]]], rng: random.Random) -> None:
    grammar, asked = case
    constraint, other = compiler().compile(grammar), compiler().compile(grammar)
    for output in asked:
        if rng.random() < 0.5:
            constraint.forced(output, rng.randrange(8))
        if rng.random() < 0.3:
            constraint, other = constraint.fork(), constraint
        assert constraint.after(output).ids().tolist() == fresh(grammar, output)
        if rng.random() < 0.3:
            other.after(rng.choice(asked))


@settings(max_examples=60)
@given(walks(), st.integers(0, 12))
def test_what_is_forced_depends_on_the_output_alone(case: tuple[Grammar, list[list[int]]], limit: int) -> None:
    grammar, asked = case
    constraint = compiler().compile(grammar)
    for output in asked:
        forced = constraint.forced(output, limit)
        assert forced == GrammarCompiler(TOY, TOY.end_tokens).compile(grammar).forced(output, limit)
        assert len(forced.tokens) == len(forced.reasons) <= limit
        for place, (token, reason) in enumerate(zip(forced.tokens, forced.reasons, strict=True)):
            may_come = fresh(grammar, [*output, *forced.tokens[:place]])
            assert token in may_come
            assert reason != Forcing.SOLE or may_come == [token]


@settings(max_examples=60)
@given(st.sampled_from(GRAMMARS), st.randoms(use_true_random=False))
def test_special_tokens_come_at_the_end_only(grammar: Grammar, rng: random.Random) -> None:
    constraint = compiler().compile(grammar)
    output = random_output(grammar, rng, 40)
    for n in range(len(output)):
        assert output[n] not in TOY.end_tokens or n == len(output) - 1
        allowed = constraint.after(output[:n]).ids().tolist()
        ends = [token for token in allowed if token in SPECIALS]
        assert ends in ([], [EOS, END])


@settings(max_examples=40)
@given(st.randoms(use_true_random=False))
def test_every_walk_through_a_schema_is_valid(rng: random.Random) -> None:
    output = random_output(GRAMMARS[0], rng, 400)
    assert output[-1] in TOY.end_tokens
    person = json.loads(spelled(output[:-1]))
    assert list(person) == ["name", "age", "adult"]
    assert len(person["name"]) <= 6
    assert 0 <= person["age"] <= 120
    assert person["adult"] in (True, False)


def test_once_the_grammar_has_ended_only_an_end_token_is_left() -> None:
    constraint = compiler().compile(GRAMMARS[0])
    output = TOY.tokenize('{"name": "Bo", "age": 7, "adult": true}')
    assert constraint.after(output).ids().tolist() == [EOS, END]
    may_go_on = compiler().compile(GRAMMARS[5])
    allowed = may_go_on.after(TOY.tokenize("name")).ids().tolist()
    assert {EOS, END} < set(allowed)


def test_json_is_written_on_one_line() -> None:
    constraint = compiler().compile(GRAMMARS[0])
    assert not constraint.after(TOY.tokenize('{ "')).ids().size
    assert not constraint.after(TOY.tokenize('{"name":"')).ids().size
    free = compiler().compile(Grammar.json_schema(PERSON.replace("{", '{"x-guidance": ' + FREE + ", ", 1)))
    assert free.after(TOY.tokenize('{\n "name" :"')).ids().size


def test_any_object_is_an_object_and_nothing_else() -> None:
    constraint = compiler().compile(Grammar.json_object())
    for text in ("{}", '{"a": [1, null], "b": {"c": "\\n"}}'):
        assert constraint.after(TOY.tokenize(text)).ids().tolist() == [EOS, END]
    for text in ("[", '"', "{1", "{}{", '{"a": tru}'):
        assert not constraint.after(TOY.tokenize(text)).ids().size


def test_the_mask_cuts_the_prompt_off() -> None:
    constraint = compiler().compile(GRAMMARS[0])
    mask = constraint.mask(n_prompt=3)
    assert mask([1, 2, 3]).ids().tolist() == constraint.after([]).ids().tolist()
    start = TOY.tokenize('{"')
    assert mask([1, 2, 3, *start]).ids().tolist() == constraint.after(start).ids().tolist()


def test_the_fixed_parts_of_a_schema_are_forced() -> None:
    constraint = compiler().compile(GRAMMARS[0])
    start = constraint.forced([], 99)
    assert spelled(start.tokens) == '{"name": "'
    assert start.reasons[0] == Forcing.SOLE
    assert start.reasons[-1] == Forcing.EDGE
    after_age = constraint.forced(TOY.tokenize('{"name": "a", "age": 7,'), 99)
    assert spelled(after_age.tokens) == ' "adult": '
    assert constraint.forced(TOY.tokenize('{"name": "a'), 99) == ForcedTokens([], [])
    assert constraint.forced([], 1).tokens == start.tokens[:1]
    assert constraint.forced([], 0) == ForcedTokens([], [])


def test_the_end_is_forced_too() -> None:
    output = TOY.tokenize('{"name": "a", "age": 7, "adult": tru')
    constraint = compiler().compile(GRAMMARS[0])
    assert constraint.forced(output, 99).tokens[-1] == EOS
    assert constraint.forced(output, 99).reasons[-1] == Forcing.END
    assert constraint.forced(output, 99, END).tokens[-1] == END
    assert constraint.forced([*output, *TOY.tokenize("e}"), END], 99) == ForcedTokens([], [])
    assert constraint.forced(output, 2).tokens == [101, 125]
    alone = GrammarCompiler(TOY, frozenset({END})).compile(GRAMMARS[0]).forced(output, 99)
    assert (alone.tokens[-1], alone.reasons[-1]) == (END, Forcing.SOLE)


def test_an_end_token_that_has_bytes_is_no_text() -> None:
    bang = ord("!")
    constraint = GrammarCompiler(TOY, frozenset({END, bang})).compile(Grammar.lark("start: /a[!b]{0,9}/"))
    assert constraint.after([*b"a"]).ids().tolist() == [bang, *b"b", END]
    assert constraint.after([*b"ab!"]).ids().tolist() == [bang, END]


def test_a_grammar_is_compiled_once() -> None:
    made = GrammarCompiler(TOY, TOY.end_tokens)
    made.compile(GRAMMARS[0])
    kept = made.n_compiled
    made.compile(GRAMMARS[0])
    assert (kept, made.n_compiled) == (1, 1)
    for n in range(40):
        made.compile(Grammar.lark(f'start: "{n}"'))
    assert made.n_compiled == 8
    assert made.compile(GRAMMARS[0]).after([]).ids().size


@pytest.mark.parametrize(
    ("grammar", "why"),
    [
        (Grammar.json_schema('{"type": "objec"}', "--json-schema a.json"), "Invalid type: objec"),
        (Grammar.json_schema('{"properties": 3, "type": "object"}'), "properties must be an object"),
        (Grammar.json_schema('{"type": "string", "pattern": "("}'), "unclosed group"),
        (Grammar.json_schema('{"$ref": "http://127.0.0.1:9/x"}'), "does not fetch"),
        (Grammar.json_schema('{"type": "array", "uniqueItems": true}'), 'Unimplemented keys: ["uniqueItems"]'),
        (Grammar.json_schema('{"x-guidance": {"key_separator": 3}}'), "expected a string"),
        (Grammar.lark("start: foo"), 'unknown name: "foo"'),
        (Grammar.lark('start: "a" <|im_end|>'), "unknown special token"),
        (Grammar.lark('begin: "a"'), "start"),
        (Grammar.lark('root ::= "a" | "b"'), "GBNF"),
        (Grammar.json_schema('{"$ref": "#"}'), "no answer can begin with it"),
    ],
)
def test_what_the_library_cannot_read_is_refused_with_its_reason(grammar: Grammar, why: str) -> None:
    with pytest.raises(BadInput) as caught:
        compiler().compile(grammar)
    assert why in caught.value.why
    assert "\n" not in caught.value.why
    assert caught.value.what == grammar.name


def test_a_grammar_that_asks_for_a_special_token_is_refused_where_it_does() -> None:
    constraint = compiler().compile(Grammar.lark(f'start: "a" <[{SPECIALS[0]}]>'))
    assert constraint.after([]).ids().size
    with pytest.raises(BadInput, match="name no special tokens"):
        constraint.after([*b"a"])


def test_a_grammar_that_explodes_ends_with_a_reason() -> None:
    tree = TokenTree(TOY, TOY.end_tokens)
    ambiguous = Grammar.lark('start: a\na: a a a | a a | "x"')
    matcher = LLMatcher(
        tree.tokenizer, source(ambiguous, LLMatcher), log_level=0, limits=LLParserLimits(max_items_in_row=50)
    )
    constraint = Constraint(matcher, tree, "--grammar a.lark")
    assert len(constraint.after([*b"xx"])) > 0
    with pytest.raises(EngineFailure, match=r"a.lark: it cannot be followed: .*; give a simpler one"):
        constraint.after([*b"xx"] * 20)
