"""The arms over the toy: every answer is new, whole, and the same whatever is drafted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from edgespec.backend.settings import FlashAttention
from edgespec.backend.toy import ToyModel
from edgespec.bench.arms import EngineArm, LibraryArm, draft_choices, engine_arms
from edgespec.bench.library_child import Question, Reply
from edgespec.engine import DraftChoice, Engine, Extras, GenerateOptions
from edgespec.errors import BadInput
from edgespec.events import Finish
from edgespec.spec.cost import CostTable
from edgespec.spec.law import SamplingSettings
from edgespec.spec.policy import FixedPolicy
from edgespec.spec.ports import Capabilities
from edgespec.tune.tuning import Choice, Tuned, Tuning
from tests.engine.toy_engine import EngineTarget, ToyOpened, engine_over
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
    assert sum(first[1].matches.n_right) == first[1].n_accepted <= sum(first[1].matches.n_tried)
    assert sum(first[0].matches.n_tried) == 0
    for one in first + again:
        assert len(one.token_ids) == 60
        assert one.finish == "length"
        assert one.first_token_seconds > 0.0
        assert one.decode_seconds > 0.0
        assert one.total_seconds >= max(one.decode_seconds, one.first_token_seconds)


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


def test_warming_up_ends_early() -> None:
    target = EngineTarget(MODEL, LIMITS)
    with engine_over(target) as engine:
        (plain,) = engine_arms(engine, [], replace(OPTIONS, max_tokens=200))
        plain.warm_up(PROMPT)
        n_passes = len(target.passes)
    assert 4 <= n_passes < 100


def test_settling_makes_the_change_that_the_first_answer_would_pay_for() -> None:
    target = EngineTarget(MODEL, LIMITS)
    opened = ToyOpened(target)
    short = replace(target.settings, flash_attention=FlashAttention.OFF)
    long = replace(target.settings, flash_attention=FlashAttention.ON)
    table = CostTable((0,), (1, 2), ((1.0, 1.0),))
    # 60 tokens of answer: only the long prompt makes a text of more than 150, whatever a warm-up would take.
    choices = (Choice(150, Tuned(short, table, table)), Choice(4096, Tuned(long, table, table)))
    opened.tuning = Tuning(choices, (0,), (), short, 1.0, (), False, "2026-01-01")
    with Engine(opened, "toy", [], Extras(FixedPolicy())) as engine:
        arms = engine_arms(engine, ["lookup"], OPTIONS)
        prompt, longer = PROMPT, PROMPT * 11
        assert len(prompt) + 60 <= 150 < len(longer) + 60
        assert len(longer) + 4 <= 150
        for one, settings in ((prompt, short), (longer, long), (prompt, short)):
            for arm in arms:
                arm.settle(one)
            assert engine.settings == settings
            n_passes = len(target.passes)
            for arm in arms:
                arm.settle(one)
            assert len(target.passes) == n_passes
            arms[0].answer(one)
            assert engine.settings == settings


def test_plain_is_always_there_and_first() -> None:
    off, auto, lookup = DraftChoice.OFF, DraftChoice.AUTO, DraftChoice.LOOKUP
    assert draft_choices([]) == (off,)
    assert draft_choices(["lookup", "off", "auto", "lookup"]) == (off, lookup, auto)
    assert draft_choices(["suffix+lookup", "lookup"]) == (off, DraftChoice.parse("lookup,suffix"), lookup)
    with pytest.raises(BadInput, match="draft 'magic'"):
        draft_choices(["auto", "magic"])


@dataclass
class Neighbour:
    """Stands where the library's process does, and notes when it was asked what and when nobody was."""

    log: list[Question | float] = field(default_factory=list)

    def ask(self, question: Question) -> Reply:
        self.log.append(question)
        return Reply((7, 8), 0.5, 0.75, 1.5, 3, Finish.STOP)

    def arm(self, max_tokens: int) -> LibraryArm:
        return LibraryArm(self.ask, max_tokens, frozenset({9, 4}), self.log.append)


def test_the_library_s_own_times_are_taken_and_its_threads_fall_asleep() -> None:
    neighbour = Neighbour()
    found = neighbour.arm(20).answer([5, 6])
    assert (found.token_ids, found.finish, found.passes) == ((7, 8), "stop", 3)
    assert (found.first_token_seconds, found.decode_seconds, found.total_seconds) == (0.75, 1.5, 2.0)
    before, question, after = neighbour.log
    assert question == Question((5, 6), 20, (4, 9))
    # Whoever answered last spins for 20 ms.
    assert (before, after) == (0.05, 0.05)


@pytest.mark.parametrize(("max_tokens", "n_warm_up"), [(3, 3), (99, 4)])
def test_the_library_warms_up_with_a_few_tokens(max_tokens: int, n_warm_up: int) -> None:
    neighbour = Neighbour()
    neighbour.arm(max_tokens).warm_up([5, 6])
    assert neighbour.log[1] == Question((5, 6), n_warm_up, (4, 9))
    neighbour.arm(max_tokens).settle([5, 6])
    assert len(neighbour.log) == 3
