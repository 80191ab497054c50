"""The arms over the toy: every answer is new, whole, and the same whatever is drafted."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest

from edgespec.backend.toy import ToyModel
from edgespec.bench.arms import EngineArm, LibraryArm, draft_choices, engine_arms
from edgespec.engine import DraftChoice, GenerateOptions
from edgespec.errors import BadInput
from edgespec.spec.law import SamplingSettings
from edgespec.spec.ports import Capabilities
from tests.engine.toy_engine import EngineTarget, engine_over
from tests.text.toy_vocab import ToyVocabulary

VOCAB = ToyVocabulary()
# Few tokens are possible anywhere, so that texts repeat themselves and lookup finds what to copy.
MODEL = ToyModel(n_vocab=VOCAB.n_vocab, order=1, masked=0.98, seed=2)
LIMITS = Capabilities(n_ctx=256, n_vocab=VOCAB.n_vocab, max_rows=16, max_chunk=32, max_leaves=4, can_rollback=True)
OPTIONS = GenerateOptions(SamplingSettings(banned=tuple(VOCAB.end_tokens)), max_tokens=60)
PROMPT = [VOCAB.bos or 0, *VOCAB.tokenize("the prompt")]


@pytest.fixture
def arms() -> Iterator[tuple[EngineArm, ...]]:
    with engine_over(EngineTarget(MODEL, LIMITS)) as engine:
        yield engine_arms(engine, ["lookup"], OPTIONS)


def test_arms_answer_alike_and_only_one_drafts(arms: tuple[EngineArm, ...]) -> None:
    plain, lookup = arms
    assert (plain.name, lookup.name) == ("off", "lookup")
    first = [arm.answer(PROMPT) for arm in arms]
    again = [arm.answer(PROMPT) for arm in reversed(arms)]
    assert len({one.token_ids for one in first + again}) == 1
    assert (first[0].passes, first[0].n_drafted) == (60, 0)
    assert first[1].passes < 60
    assert 0 < first[1].n_accepted <= first[1].n_drafted
    for one in first + again:
        assert len(one.token_ids) == 60
        assert one.finish == "length"
        assert one.first_token_seconds > 0.0
        assert one.decode_seconds > 0.0


def test_every_prompt_is_read_anew(arms: tuple[EngineArm, ...]) -> None:
    engine = arms[0].engine
    n_before = engine.new_sequence()
    for arm in arms:
        arm.answer(PROMPT)
    assert engine.new_sequence() == n_before + 1 + len(arms)


def test_warming_up_takes_a_few_tokens_and_leaves_nothing(arms: tuple[EngineArm, ...]) -> None:
    expected = arms[0].answer(PROMPT)
    for arm in arms:
        arm.warm_up(PROMPT)
        assert arm.answer(PROMPT).token_ids == expected.token_ids
    library = Counting()
    LibraryArm(library, 3, frozenset()).warm_up([5, 6])  # type: ignore[arg-type]
    assert library.read_tokens == [5, 6]
    assert library.n_said == 3
    LibraryArm(library, 99, frozenset()).warm_up([5, 6])  # type: ignore[arg-type]
    assert library.n_said == 4


def test_plain_is_always_there_and_first() -> None:
    off, auto, lookup = DraftChoice.OFF, DraftChoice.AUTO, DraftChoice.LOOKUP
    assert draft_choices([]) == (off,)
    assert draft_choices(["lookup", "off", "auto", "lookup"]) == (off, lookup, auto)
    with pytest.raises(BadInput, match="--drafts magic"):
        draft_choices(["auto", "magic"])


class Counting:
    """Stands where the library does: says 1, 2, 3, ... and notes what it read."""

    def __init__(self) -> None:
        self.read_tokens: list[int] = []
        self.n_said = 0

    def read(self, tokens: list[int]) -> None:
        self.read_tokens = list(tokens)

    def generate(self, token: int) -> Iterator[int]:
        self.read_tokens.append(token)
        for self.n_said in itertools.count(1):
            yield self.n_said


def test_the_library_reads_all_and_ends_in_time() -> None:
    library, ticks = Counting(), itertools.count()
    arm = LibraryArm(library, 3, frozenset({9}), lambda: float(next(ticks)))  # type: ignore[arg-type]
    found = arm.answer([5, 6, 7])
    assert library.read_tokens == [5, 6, 7]
    assert (found.token_ids, found.finish, found.passes) == ((1, 2, 3), "length", 3)
    # The clock ticks at the start, after reading, at the first token, at the end.
    assert (found.first_token_seconds, found.decode_seconds) == (2.0, 2.0)
    ended = replace(arm, max_tokens=20).answer([5])
    assert (ended.token_ids, ended.finish, ended.passes) == (tuple(range(1, 9)), "stop", 9)
