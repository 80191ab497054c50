"""What is said of a tuning is what the engine would do with it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgespec.backend.settings import FlashAttention, LlamaSettings
from edgespec.doctor.facts import ChoiceFacts, ClassFacts, Origin, SettingsFacts, Speedup, Wishes
from edgespec.doctor.measured import (
    OpenedFacts,
    class_of,
    curve_at,
    live_curve,
    settings_facts,
    settings_for,
    speedup_of,
)
from edgespec.engine import GenerateOptions
from edgespec.engine.answer import Answer, CancelToken
from edgespec.engine.arrangement import better
from edgespec.engine.choosing import alone, tuned_settings
from edgespec.engine.job import Request
from edgespec.engine.pace import PaceStatus
from edgespec.spec.cost import CostTable
from edgespec.spec.policy import Decision, Explanation, Reason
from edgespec.spec.predict import BreakEven
from edgespec.tune.tuning import Candidate, Tuning
from tests.doctor.cases import BY_LENGTH, FLAT, LONG, SHORT, tuning, tuning_by_length

BOTH = tuning_by_length()
ROOM = LlamaSettings(n_ctx=700)
STARTED = tuned_settings(ROOM, BOTH.for_length(0))
EXPLAINED = Explanation(
    Decision(Reason.DRAFTED, 1, 3, 4, 2.0, 0.02, 0.01), {}, (BreakEven(2, 1.5, 0.5),), (), 1.3, 0.01, 0.2
)


def facts_of(found: Tuning, settings: LlamaSettings, context: int = 256) -> SettingsFacts:
    return settings_facts(settings, found, (), (), context)


@pytest.mark.parametrize("n_tokens", [1, 300, 362, 363, 900, 5000])
@pytest.mark.parametrize("start", [STARTED, tuned_settings(ROOM, BOTH.for_length(5000))])
def test_settings_for_a_length_are_those_the_engine_changes_to(start: LlamaSettings, n_tokens: int) -> None:
    answer = Answer(CancelToken(), None)
    request = Request(0, False, [1] * (n_tokens - 1), GenerateOptions(max_tokens=1), answer)
    changed = better(start, BOTH, request, 0)
    expected = start if changed is None else tuned_settings(start, changed)
    assert settings_for(start, BOTH, n_tokens) == expected
    assert expected.flash_attention is (FlashAttention.ON if n_tokens <= 362 else FlashAttention.OFF)


def test_settings_that_were_not_measured_stay() -> None:
    other = replace(STARTED, n_threads=7)
    assert settings_for(other, BOTH, 5000) == other
    assert settings_for(other, None, 5000) == other
    assert facts_of(BOTH, other).origin is Origin.PROBED
    assert facts_of(BOTH, other).choices == ()


def test_all_choices_are_told() -> None:
    expected = (ChoiceFacts(362, replace(SHORT, n_ctx=700)), ChoiceFacts(None, replace(LONG, n_ctx=700)))
    assert facts_of(BOTH, STARTED).choices == expected


def test_the_gain_is_that_of_the_settings_at_their_own_length() -> None:
    short, long = (one.tuned for one in BOTH.choices)
    assert speedup_of(BOTH, short, 256) == Speedup(0.015 / 0.010, 128)
    assert speedup_of(BOTH, long, 400) == Speedup(0.024 / 0.012, 1024)
    assert facts_of(BOTH, STARTED).speedup == Speedup(0.015 / 0.010, 128)


def test_a_gain_that_was_not_measured_is_not_told() -> None:
    (choice,) = tuning(FLAT).choices
    without = replace(tuning(FLAT), candidates=tuning(FLAT).candidates[:1])
    assert speedup_of(without, choice.tuned, 256) is None
    slower = replace(BOTH, candidates=(*BOTH.candidates[:2], Candidate(BOTH.defaults, (0.015,), "clearly slower")))
    assert speedup_of(slower, BOTH.choices[1].tuned, 1024) is None


def test_one_thread_does_not_boast_of_what_all_of_them_gained() -> None:
    two = tuning_by_length()
    threads = replace(SHORT, n_threads=2)
    all_threads = replace(
        two,
        choices=tuple(replace(one, tuned=replace(one.tuned, settings=threads)) for one in two.choices[:1]),
        candidates=(Candidate(threads, (0.005, 0.007)), Candidate(two.defaults, (0.015, 0.024))),
        plain_speedup_over_defaults=3.0,
    )
    assert facts_of(all_threads, threads).speedup == Speedup(0.015 / 0.005, 128)
    assert facts_of(alone(all_threads), SHORT).speedup is None
    measured = replace(all_threads, candidates=(*all_threads.candidates, Candidate(SHORT, (0.012, 0.018))))
    assert facts_of(alone(measured), SHORT).speedup == Speedup(0.015 / 0.012, 128)


@pytest.mark.parametrize(
    ("died", "blamed"),
    [
        (LlamaSettings(), True),
        (LlamaSettings(n_threads=4), True),
        (LlamaSettings(flash_attention=FlashAttention.ON), False),  # with what runs now extra buffers were slower
        (LlamaSettings(extra_buffers=False, n_threads=4), False),
        (LlamaSettings(n_gpu_layers=-1), False),
    ],
)
def test_only_the_same_settings_with_extra_buffers_tell_why_there_are_none(died: LlamaSettings, blamed: bool) -> None:
    found = tuning(FLAT)
    bare = LlamaSettings(extra_buffers=False)
    found = replace(found, candidates=(Candidate(bare, (0.01,)), Candidate(died, (), "died: SIGILL")))
    facts = facts_of(found, bare)
    assert ("SIGILL" in facts.twin_died) is blamed
    assert len(facts.died) == 1
    assert facts_of(found, LlamaSettings()).twin_died == ""  # they have them


def test_a_class_that_tuning_chose_is_the_cheapest() -> None:
    table = BY_LENGTH[0]
    tuned = BOTH.choices[0].tuned
    assert class_of((1,), BOTH, tuned, 128) == ClassFacts((1,), True, 0.019 / 0.010)
    assert class_of((2, 4), BOTH, tuned, 128) == ClassFacts((2, 4), False, 0.019 / 0.010)
    assert class_of((1,), None, None, 128) == ClassFacts((1,), False, None)
    assert class_of((), BOTH, tuned, 128) is None
    narrow = replace(tuned, table=CostTable(table.contexts, (1,), ((0.01,), (0.02,))))
    assert class_of((1,), BOTH, narrow, 128) == ClassFacts((1,), True, None)


def test_prices_of_rounds_count_for_the_settings_they_were_run_with_at_full_speed() -> None:
    opened = OpenedFacts(STARTED, (), BOTH, EXPLAINED, PaceStatus(2, 2, 2, 0.0, 0, 0))
    wishes = Wishes(context=200)
    stored = curve_at(BY_LENGTH[0], 200, ())
    assert live_curve(STARTED, opened, wishes, None) == replace(stored, break_even=EXPLAINED.break_even)
    assert live_curve(STARTED, replace(opened, explanation=None), wishes, None) == stored
    assert live_curve(STARTED, replace(opened, pace=PaceStatus(1, 2, 2, 1.0, 0, 1)), wishes, None) == stored
    longer = settings_for(STARTED, BOTH, 900)
    assert live_curve(longer, opened, Wishes(context=900), None) == curve_at(BY_LENGTH[1], 900, ())
    assert live_curve(replace(STARTED, n_threads=7), opened, wishes, None) is None


def test_only_an_exact_answer_is_kept_to_a_class() -> None:
    opened = OpenedFacts(STARTED, (), BOTH, None)
    widths = ClassFacts((2, 4), False)
    assert live_curve(STARTED, opened, Wishes(), widths) == curve_at(BY_LENGTH[0], 256, ())
    assert live_curve(STARTED, opened, Wishes(exact=True), widths) == curve_at(BY_LENGTH[0], 256, (2, 4))
    assert live_curve(STARTED, opened, Wishes(exact=True), None) == curve_at(BY_LENGTH[0], 256, ())
