"""Answers compared over the toy: equal where nothing is wrong, ties where rounding decides, bugs where planted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from edgespec.backend import machine
from edgespec.backend.settings import FlashAttention
from edgespec.check import compare
from edgespec.check.compare import Comparer, Result, result_of
from edgespec.engine import DraftChoice, GenerateOptions
from edgespec.engine.sockets import Interruptible
from edgespec.errors import ContextOverflow, NotEnoughMemory
from edgespec.events import Completion, Notice
from edgespec.replay import Difference, Run, Verdict
from edgespec.spec.ports import Target
from tests.check.toy_check import CLEAR, LETTERS, LEVEL, LIMITS, OPTIONS, PROMPTS, VOCAB, comparer_over
from tests.engine.toy_engine import EngineTarget, engine_over
from tests.library.toy_card import toy_card
from tests.planted import LostCell, OffByOne, StaleCell

WARM = replace(OPTIONS, sampling=replace(LETTERS, temperature=0.7, top_p=0.9, seed=5))
PLANTS = [StaleCell, OffByOne, LostCell]


@pytest.mark.parametrize("draft", [DraftChoice.AUTO, DraftChoice.LOOKUP])
@pytest.mark.parametrize("options", [OPTIONS, WARM], ids=["greedy", "warm"])
def test_a_sound_engine_says_the_same_with_drafts(options: GenerateOptions, draft: DraftChoice) -> None:
    wanted = replace(options, draft=draft)
    with comparer_over(CLEAR) as comparer:
        found = [comparer.compare(prompt, wanted) for prompt in PROMPTS]
    assert {one.result for one in found} == {Result.IDENTICAL}
    assert all(one.difference is None for one in found)
    assert all(one.n_tokens == one.n_passes_plain == 48 for one in found)
    assert any(one.n_passes_drafted < 48 and one.n_accepted > 0 for one in found)
    assert [(one.id, one.category) for one in found] == [(p.id, p.category) for p in PROMPTS]


def test_what_rounding_decides_is_a_tie() -> None:
    with comparer_over(LEVEL, rounding=True) as comparer:
        found = [comparer.compare(prompt, OPTIONS) for prompt in PROMPTS]
    assert Result.BUG not in {one.result for one in found}
    ties = [one.difference for one in found if one.result is Result.TIE]
    assert len(ties) >= 2
    for tie in ties:
        assert tie is not None
        assert tie.plain.id != tie.drafted.id
        assert tie.gap is not None
        assert 0.0 <= tie.gap < 0.01
        assert tie.rows[0] == 1 < tie.rows[1]
        assert tie.replay in ("strict", "scheduled")
        assert tie.line.startswith(f"tie at token {tie.position}: ")


def test_between_exact_answers_rounding_makes_no_difference() -> None:
    with comparer_over(LEVEL, rounding=True, widths=(4,)) as comparer:
        found = [comparer.compare(prompt, replace(OPTIONS, exact=True)) for prompt in PROMPTS]
    assert {one.result for one in found} == {Result.IDENTICAL}
    assert any(one.n_accepted for one in found)


def test_between_exact_answers_rounding_is_no_excuse() -> None:
    """The widths 1 to 16 are claimed to be one class, and are not: what were ties are now broken promises."""
    with comparer_over(LEVEL, rounding=True, widths=tuple(range(1, 17))) as comparer:
        found = [comparer.compare(prompt, replace(OPTIONS, exact=True)) for prompt in PROMPTS]
    bugs = [one.difference for one in found if one.result is Result.BUG]
    assert len(bugs) >= 2
    assert Result.TIE not in {one.result for one in found}
    for bug in bugs:
        assert bug is not None
        assert bug.replay == ""
        assert bug.gap is not None
        assert bug.line.startswith(f"bug at token {bug.position}: ")


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("options", [OPTIONS, WARM], ids=["greedy", "warm"])
def test_a_planted_defect_is_a_bug(plant: Callable[[Target], Target], options: GenerateOptions) -> None:
    with comparer_over(CLEAR, plant) as comparer:
        found = [comparer.compare(prompt, options) for prompt in PROMPTS]
    assert Result.TIE not in {one.result for one in found}
    assert [one.result for one in found].count(Result.BUG) >= 2


@pytest.mark.parametrize("plant", PLANTS)
def test_rounding_does_not_excuse_a_planted_defect(plant: Callable[[Target], Target]) -> None:
    with comparer_over(CLEAR, plant, rounding=True) as comparer:
        found = [comparer.compare(prompt, OPTIONS) for prompt in PROMPTS]
    assert [one.result for one in found].count(Result.BUG) >= 2


def test_what_threads_stepped_down_may_explain_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers of a busy machine that differ beyond a tie are made anew, but not for ever, and not exact ones."""
    ask, calls = Comparer.ask, [0]

    def disturbed(self: Comparer, prompt: list[int], options: GenerateOptions) -> tuple[Run, Completion]:
        calls[0] += 1
        run, completion = ask(self, prompt, options)
        return run, replace(completion, notices=(Notice("cores-taken", "others use them"),))

    monkeypatch.setattr(Comparer, "ask", disturbed)
    for plant, options, n_calls, result in (
        (OffByOne, OPTIONS, 6, Result.UNDECIDED),
        (OffByOne, replace(OPTIONS, exact=True), 2, Result.BUG),
        (None, OPTIONS, 2, Result.IDENTICAL),
    ):
        calls[0] = 0
        with comparer_over(CLEAR, plant, widths=tuple(range(1, 17))) as comparer:
            found = comparer.compare(PROMPTS[0], options)
        assert found.result is result
        assert calls[0] == n_calls
        if found.difference is not None:
            assert found.difference.line.startswith(f"{result.value} at token ")


def test_only_what_no_replay_explains_is_undecided() -> None:
    tie = Difference(Verdict.TIE, 3, 1, 2, 1, 4, ())
    for disturbed in (False, True):
        assert result_of(None, disturbed) is Result.IDENTICAL
        assert result_of(tie, disturbed) is Result.TIE
    bug = replace(tie, verdict=Verdict.BUG)
    assert (result_of(bug, False), result_of(bug, True)) == (Result.BUG, Result.UNDECIDED)


def test_an_answer_that_ends_too_early_is_a_bug_without_a_gap() -> None:
    with comparer_over(CLEAR) as comparer:
        run = Run((1, 2), (), (5, 6))
        found = comparer.judge(OPTIONS, run, replace(run, token_ids=(5,)))
        assert found is not None
        shown = comparer.shown(found, Result.BUG)
    assert (shown.plain.id, shown.drafted.id, shown.drafted.text) == (6, None, "")
    assert shown.gap is None
    assert "the end" in shown.line


def test_special_tokens_are_shown_as_they_are_spelled() -> None:
    end = next(iter(VOCAB.end_tokens))
    with comparer_over(CLEAR) as comparer:
        run = Run((1, 2), (), (5, end))
        found = comparer.judge(OPTIONS, run, replace(run, token_ids=(5,)))
        assert found is not None
        assert comparer.shown(found, Result.BUG).plain.text in VOCAB.special_tokens


def test_the_second_copy_is_made_when_it_is_needed_and_closed() -> None:
    made: list[EngineTarget] = []

    def fresh() -> Interruptible:
        made.append(EngineTarget(CLEAR, LIMITS))
        return made[-1]

    with engine_over(EngineTarget(CLEAR, LIMITS)) as engine, Comparer(engine, fresh) as comparer:
        comparer.compare(PROMPTS[0], OPTIONS)
        assert made == []
        run = Run((1, 2), (), (5, 6))
        for _ in range(2):
            comparer.judge(OPTIONS, run, replace(run, token_ids=(5,)))
        assert len(made) == 1
        assert not made[0].closed.is_set()
        engine._arranger.settings = replace(engine.settings, flash_attention=FlashAttention.ON)
        comparer.judge(OPTIONS, run, replace(run, token_ids=(5,)))
        assert [one.closed.is_set() for one in made] == [True, False]
    assert made[1].closed.is_set()


def test_a_second_copy_that_does_not_fit_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[object] = []

    def load(*arguments: object) -> Interruptible:
        loaded.append(arguments)
        return EngineTarget(CLEAR, LIMITS)

    monkeypatch.setattr(compare, "fresh_target", load)
    run = Run((1, 2), (), (5, 6))
    with engine_over(EngineTarget(CLEAR, LIMITS)) as engine:
        with Comparer(engine) as comparer:
            monkeypatch.setattr(machine, "available_memory_bytes", lambda: 1 << 40)
            comparer.judge(OPTIONS, run, replace(run, token_ids=(5,)))
        assert len(loaded) == 1
        monkeypatch.setattr(machine, "available_memory_bytes", lambda: 1 << 10)
        with Comparer(engine) as comparer, pytest.raises(NotEnoughMemory):
            comparer.judge(OPTIONS, run, replace(run, token_ids=(5,)))
    assert len(loaded) == 1


def test_the_template_and_the_stops_of_the_models_card_hold() -> None:
    card = replace(toy_card(b"x"), chat_template="{{ messages[0].content }}", stop_strings=("a", "b", "c"))
    with comparer_over(CLEAR) as comparer:
        before = comparer.compare(PROMPTS[0], OPTIONS)
    with engine_over(EngineTarget(CLEAR, LIMITS)) as engine:
        engine.card = card
        found = Comparer(engine).compare(PROMPTS[0], OPTIONS)
        assert found.n_prompt < before.n_prompt + 4
        assert found.n_tokens < before.n_tokens


def test_a_prompt_beyond_the_context_is_said() -> None:
    with comparer_over(CLEAR) as comparer, pytest.raises(ContextOverflow):
        comparer.compare(replace(PROMPTS[0], text="x" * 600), OPTIONS)


def test_a_prompt_is_asked_in_the_models_own_template_and_without_one_as_it_stands() -> None:
    n_text = 1 + len(VOCAB.tokenize(PROMPTS[0].text))
    with engine_over(EngineTarget(CLEAR, LIMITS)) as engine:
        assert Comparer(engine).compare(PROMPTS[0], OPTIONS).n_prompt > n_text + 8
        engine.header = replace(engine.header, chat_template=None)
        assert Comparer(engine).compare(PROMPTS[0], OPTIONS).n_prompt == n_text
