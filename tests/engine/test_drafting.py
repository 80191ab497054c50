from __future__ import annotations

import numpy as np
import pytest

from edgespec.choice import DraftChoice
from edgespec.draft.guard import GuardedDrafter
from edgespec.draft.lookup import LookupDrafter
from edgespec.engine.answer import Answer, CancelToken
from edgespec.engine.drafting import Drafters, automatic
from edgespec.engine.job import Request
from edgespec.engine.options import GenerateOptions
from edgespec.events import Notice
from edgespec.spec.ports import Drafter, Plan
from edgespec.text.constraint import GrammarCompiler
from edgespec.text.grammar import Grammar
from tests.draft.fake import NoRows, commit_of
from tests.text.toy_vocab import ToyVocabulary

VOCAB = ToyVocabulary()


def drafters(decides: bool = True) -> Drafters:
    return Drafters(VOCAB, lambda: 0.0, lambda: decides)


def drafters_of(options: GenerateOptions, source: Drafters, notices: list[Notice]) -> tuple[Drafter, ...]:
    return source.for_request(Request(0, False, [1], options, Answer(CancelToken())), notices.append)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (GenerateOptions(), ["suffix"]),
        (GenerateOptions(draft=DraftChoice.parse("recycle,lookup,suffix")), ["lookup", "suffix", "recycle"]),
        (GenerateOptions(draft=DraftChoice.LOOKUP), ["lookup"]),
        (GenerateOptions(draft=DraftChoice.OFF), []),
        (GenerateOptions(prediction="said before"), ["given", "suffix"]),
        (GenerateOptions(prediction="said before", draft=DraftChoice.OFF), ["given"]),
    ],
)
def test_who_guesses(options: GenerateOptions, names: list[str]) -> None:
    made = drafters_of(options, drafters(), [])
    assert [one.name for one in made] == names
    assert all(isinstance(one, GuardedDrafter) for one in made)


@pytest.mark.parametrize(
    ("prediction", "when_idle", "ending"),
    [
        ("", False, "so nothing is drafted; 'edgespec tune' measures it"),
        ("said before", False, "so nothing but the expected text is drafted; 'edgespec tune' measures it"),
        ("", True, "so nothing is drafted; it is measured while nothing is asked"),
    ],
)
def test_why_nothing_is_drafted_is_told_once(prediction: str, when_idle: bool, ending: str) -> None:
    notices: list[Notice] = []
    source = Drafters(VOCAB, lambda: 0.0, lambda: False, when_idle=when_idle)
    for _ in range(2):
        drafters_of(GenerateOptions(prediction=prediction), source, notices)
    (notice,) = notices
    assert notice.code == "not-tuned"
    assert notice.message.endswith(ending)


def shaped(draft: DraftChoice, decides: bool = True) -> list[str]:
    grammar = Grammar.json_object()
    constraint = GrammarCompiler(VOCAB, VOCAB.end_tokens).compile(grammar)
    options = GenerateOptions(draft=draft, grammar=grammar)
    request = Request(0, False, [1], options, Answer(CancelToken()), constraint=constraint)
    return [one.name for one in drafters(decides).for_request(request, lambda _notice: None)]


def test_what_a_grammar_forces_is_drafted_wherever_anything_is() -> None:
    assert shaped(DraftChoice.AUTO) == ["forced", "suffix"]
    assert shaped(DraftChoice.LOOKUP) == ["forced", "lookup"]
    assert shaped(DraftChoice.LOOKUP, decides=False) == ["forced", "lookup"]
    assert shaped(DraftChoice.OFF) == []
    assert shaped(DraftChoice.AUTO, decides=False) == []


def test_a_prediction_is_drafted_from() -> None:
    (given,) = drafters_of(GenerateOptions(prediction="abc", draft=DraftChoice.OFF), drafters(), [])
    given.begin(0, np.array([1], np.int32))
    assert given.propose(0, Plan(8)).tokens.tolist() == [*b"abc"]


def test_what_lookup_learns_serves_the_next_request() -> None:
    source = drafters()
    survival: list[float] = []
    for _ in range(2):
        (lookup,) = drafters_of(GenerateOptions(), source, [])
        lookup.begin(0, np.array([1, 2, 3, 4, 5, 1, 2, 3], np.int32))
        for _ in range(20):
            tree = lookup.propose(0, Plan(1))
            survival.append(float(tree.survival[0]))
            lookup.observe(0, commit_of(tree.tokens.tolist()), NoRows(), np.array([0], np.int32))
        lookup.end(0)
    assert survival[20] > survival[0]  # copies were right twenty times


def test_trouble_is_told_and_costs_no_answer() -> None:
    notices: list[Notice] = []
    (lookup,) = drafters_of(GenerateOptions(), drafters(), notices)
    assert len(lookup.propose(5, Plan(8))) == 0  # never begun: a defect of the caller
    assert [notice.code for notice in notices] == ["draft-raised"]


@pytest.mark.parametrize(
    ("options", "names", "codes"),
    [
        (GenerateOptions(), [], ["not-tuned"]),
        (GenerateOptions(prediction="said before"), ["given"], ["not-tuned"]),
        (GenerateOptions(draft=DraftChoice.LOOKUP), ["lookup"], []),
        (GenerateOptions(draft=DraftChoice.OFF), [], []),
    ],
)
def test_without_measurements_only_what_was_asked_for_by_name_drafts(
    options: GenerateOptions, names: list[str], codes: list[str]
) -> None:
    notices: list[Notice] = []
    made = drafters_of(options, drafters(decides=False), notices)
    assert [one.name for one in made] == names
    assert [notice.code for notice in notices] == codes


def test_a_programs_own_drafters_take_the_lookups_place() -> None:
    own = LookupDrafter(min_match=1)
    source = Drafters(VOCAB, lambda: 0.0, lambda: True, own=[own])
    (made,) = drafters_of(GenerateOptions(), source, [])
    made.begin(0, np.array([1, 2, 1], np.int32))
    assert made.propose(0, Plan(4)).tokens.tolist() == [2, 1, 2, 1]  # the built-in one waits for longer matches


@pytest.mark.parametrize(
    ("t1_seconds", "has_corpus", "names"),
    [(0.0, False, ("suffix",)), (0.008, False, ("lookup",)), (0.008, True, ("suffix",)), (0.1, False, ("suffix",))],
)
def test_auto_asks_what_costs_least_where_plain_passes_are_short(
    t1_seconds: float, has_corpus: bool, names: tuple[str, ...]
) -> None:
    assert automatic(t1_seconds, has_corpus) == names
