"""Answers under a schema, by a model too small to keep to one by itself: always valid, and the same with drafts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from edgespec.backend.llama.native import load_model
from edgespec.backend.llama.target import LlamaTarget
from edgespec.backend.llama.vocab import LlamaVocabulary
from edgespec.backend.settings import LlamaSettings
from edgespec.backend.widths import Scope, find_classes
from edgespec.draft.forced import ForcedDrafter, Habits
from edgespec.events import Finish
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.policy import FixedPolicy
from edgespec.spec.ports import Drafter
from edgespec.spec.round import Drafting, Loop
from edgespec.spec.sequence import SequenceState
from edgespec.spec.verify import PathVerifier
from edgespec.text.constraint import GrammarCompiler
from edgespec.text.grammar import Grammar
from tests.backend.llama.driving import ids, read

pytestmark = pytest.mark.live

SETTINGS = LlamaSettings(n_ctx=512, n_threads=1)
CHAT = "<|im_start|>system\nYou answer with JSON.<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
QUESTIONS = ("Describe Mary, a baker from Leeds who is 34.", "Invent a small animal that lives in the desert.")
# No schema here allows a text that needs more, however it is spelled.
MAX_TOKENS = 160
Check = Callable[[object], bool]


def fields(value: object, *names: str) -> list[object]:
    assert isinstance(value, dict)
    assert list(value) == list(names)
    return list(value.values())


def is_person(value: object) -> bool:
    name, age, trade = fields(value, "name", "age", "trade")
    return isinstance(name, str) and len(name) <= 24 and type(age) is int and 0 <= age <= 120 and trade in TRADES


def is_animal(value: object) -> bool:
    kind, traits = fields(value, "kind", "traits")
    n_legs, is_wild = fields(traits, "legs", "is_wild")
    return kind in KINDS and type(n_legs) is int and 0 <= n_legs <= 8 and isinstance(is_wild, bool)


def is_list(value: object) -> bool:
    (items,) = fields(value, "shopping_list")
    return isinstance(items, list) and len(items) == 3 and all(type(i) is str and 1 <= len(i) <= 12 for i in items)


TRADES, KINDS = ["baker", "smith", "teacher"], ["mammal", "bird", "reptile"]
SCHEMAS: dict[str, tuple[dict[str, object], Check]] = {
    "person": (
        {
            "name": {"type": "string", "maxLength": 24},
            "age": {"type": "integer", "minimum": 0, "maximum": 120},
            "trade": {"enum": TRADES},
        },
        is_person,
    ),
    "animal": (
        {
            "kind": {"enum": KINDS},
            "traits": {
                "type": "object",
                "properties": {
                    "legs": {"type": "integer", "minimum": 0, "maximum": 8},
                    "is_wild": {"type": "boolean"},
                },
                "required": ["legs", "is_wild"],
                "additionalProperties": False,
            },
        },
        is_animal,
    ),
    "list": (
        {
            "shopping_list": {
                "type": "array",
                "items": {"type": "string", "pattern": "^[A-Za-z ]{1,12}$"},
                "minItems": 3,
                "maxItems": 3,
            }
        },
        is_list,
    ),
}


def schema_of(properties: dict[str, object]) -> Grammar:
    required = list(properties)
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return Grammar.json_schema(json.dumps(schema))


@dataclass(frozen=True, slots=True)
class Said:
    tokens: list[int]
    text: str
    passes: int


class Speaker:
    """A model that answers by the round loop, in one class of widths."""

    def __init__(self, path: Path) -> None:
        model = load_model(path, SETTINGS)
        self.target = LlamaTarget(model, SETTINGS)
        self.vocab = LlamaVocabulary(model)
        self.compiler = GrammarCompiler(self.vocab, self.vocab.end_tokens)
        self.habits = Habits()
        text = ids(self.vocab.tokenize(" the harbour was quiet before dawn" * 30))
        ticks = iter(range(10**9))
        classes = find_classes(self.target, text, lambda: next(ticks) * 1e-9, scopes=[Scope((64,), 8, n_rows=16)])
        self.widths = max(classes, key=len)

    def say(self, question: str, grammar: Grammar, sampling: SamplingSettings, drafting: bool) -> Said:
        prompt = self.vocab.tokenize_special(CHAT.format(question))
        constraint = self.compiler.compile(grammar)
        self.target.release(0)
        read(self.target, prompt[:-1], chunk=32)
        law = Law(sampling, constraint.mask(len(prompt)))
        state = SequenceState.start(0, prompt, law, MAX_TOKENS, self.vocab.end_tokens, self.widths)
        drafters: tuple[Drafter, ...] = (ForcedDrafter(constraint.fork().forced, self.habits),) if drafting else ()
        for drafter in drafters:
            drafter.begin(0, np.array(prompt, np.int32))
        loop = Loop(self.target, FixedPolicy(max_nodes=max(self.widths) - 1), PathVerifier(), lambda: 0.0)
        while state.finish is None:
            loop.run([Drafting.of(state, drafters)])
        assert state.finish is Finish.STOP
        output = state.tokens[len(prompt) :]
        return Said(output, b"".join(map(self.vocab.piece, output)).decode(), state.counts.passes)


@pytest.fixture(scope="module")
def speaker(starter_model: Path) -> Iterator[Speaker]:
    made = Speaker(starter_model)
    yield made
    made.target.close()


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("name", list(SCHEMAS))
def test_answers_are_valid_and_the_same_with_drafts_in_fewer_passes(
    speaker: Speaker, name: str, temperature: float
) -> None:
    properties, is_valid = SCHEMAS[name]
    for seed, question in enumerate(QUESTIONS):
        sampling = SamplingSettings(temperature=temperature, seed=seed)
        plain = speaker.say(question, schema_of(properties), sampling, drafting=False)
        drafted = speaker.say(question, schema_of(properties), sampling, drafting=True)
        assert is_valid(json.loads(plain.text)), plain.text
        assert drafted.tokens == plain.tokens
        assert plain.passes == len(plain.tokens)
        assert drafted.passes < plain.passes
