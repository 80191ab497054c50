from __future__ import annotations

from dataclasses import replace

import pytest

from edgespec.backend.settings import FlashAttention, LlamaSettings
from edgespec.tune import plan
from edgespec.tune.result import LATE, SLOWER, Extras, Fates, choose_on, tuning_of
from edgespec.tune.sheet import Sheet, opening_of
from edgespec.tune.tuning import Tuning

BOTH = LlamaSettings(n_threads=2, prefill_chunk=512)
SINGLE = replace(BOTH, n_threads=1)
ON = replace(BOTH, flash_attention=FlashAttention.ON)
BARE = replace(BOTH, extra_buffers=False)
NOTHING = Fates({}, frozenset())


def sheet_of(*rows: tuple[LlamaSettings, int, int, float]) -> Sheet:
    sheet = Sheet((16, 64))
    sheet.widest = 32
    for row in rows:
        sheet.add(*row)
    return sheet


def full(one: LlamaSettings, seconds: float) -> list[tuple[LlamaSettings, int, int, float]]:
    return [(one, context, width, seconds * (1 + 0.1 * width)) for context in (16, 64) for width in plan.FULL]


def result(sheet: Sheet, chosen: list[LlamaSettings], fates: Fates = NOTHING, extras: Extras | None = None) -> Tuning:
    tried = (BOTH, SINGLE, ON, BARE)
    return tuning_of(sheet, tried, SINGLE, chosen, fates, extras or Extras(), "now")


def test_they_are_compared_at_the_widths_that_all_have() -> None:
    """ON is steeper, but more of its widths were measured, so its steps are finer."""
    rows = [(BOTH, context, width, 0.10 * (1 + 0.1 * (width - 1))) for context in (16, 64) for width in (1, 16)]
    rows += [(ON, context, width, 0.10 * (1 + 0.12 * (width - 1))) for context in (16, 64) for width in plan.FULL]
    assert choose_on(sheet_of(*rows), [BOTH, ON]) == [BOTH, BOTH]


def test_contexts_that_nobody_was_measured_at_are_left_out() -> None:
    assert choose_on(sheet_of((BOTH, 16, 1, 0.1), (ON, 16, 1, 0.2)), [BOTH, ON]) == [BOTH]
    assert choose_on(sheet_of((BOTH, 16, 1, 0.1), (ON, 16, 1, 0.2), (ON, 64, 1, 0.2)), [BOTH, ON]) == [ON, ON]
    assert choose_on(sheet_of(), [BOTH]) == []


def test_a_whole_one() -> None:
    sheet = sheet_of(*full(BOTH, 0.1), *full(SINGLE, 0.15), *full(ON, 0.2), *full(BARE, 0.3))
    tuning = result(sheet, [BOTH, BOTH], extras=Extras({BOTH: 128}, (1, 2)))
    (choice,) = tuning.choices
    assert choice.up_to == 64
    assert choice.tuned.settings == replace(BOTH, prefill_chunk=128)
    assert (choice.tuned.table.widths, choice.tuned.alone.widths) == (plan.FULL, plan.COARSE)
    assert tuning.plain_speedup_over_defaults == pytest.approx(1.5)
    assert (tuning.width_class, tuning.is_partial) == ((1, 2), False)
    assert [one.fate for one in tuning.candidates] == [""] * 4
    assert Tuning.from_text(tuning.to_text()) == tuning


def test_what_became_of_candidates() -> None:
    sheet = sheet_of(*full(BOTH, 0.1), *full(SINGLE, 0.15), (ON, 16, 1, 0.2))
    fates = Fates({opening_of(BARE): "died: of nothing"}, frozenset([ON]))
    tuning = result(sheet, [BOTH, BOTH], fates)
    assert [one.fate for one in tuning.candidates] == ["", "", SLOWER, "died: of nothing"]
    assert [len(one.plain_seconds) for one in tuning.candidates] == [2, 2, 1, 0]
    assert not tuning.is_partial
    late = result(sheet, [BOTH, BOTH], Fates({}, frozenset([ON])))
    assert late.candidates[-1].fate == LATE
    assert late.is_partial


def test_without_a_curve_for_one_thread_it_is_the_most_it_can_cost() -> None:
    tuning = result(sheet_of(*full(BOTH, 0.1)), [BOTH, BOTH])
    tuned = tuning.choices[0].tuned
    assert tuned.alone.seconds[0] == tuple(2 * value for value in tuned.table.seconds[0])
    assert tuned.alone.is_partial
    assert tuning.is_partial
    assert tuning.plain_speedup_over_defaults == 0.0


def test_one_thread_has_one_table() -> None:
    tuned = result(sheet_of(*full(SINGLE, 0.1)), [SINGLE, SINGLE]).choices[0].tuned
    assert tuned.alone == tuned.table
