from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.backend.settings import LlamaSettings
from edgespec.tune.sheet import Sheet, line_of, opening_of

BOTH = LlamaSettings(n_threads=2)
MIXED = LlamaSettings(n_threads=1, n_threads_batch=2)
SINGLE = LlamaSettings(n_threads=1)


def test_candidates_that_differ_in_threads_share_passes() -> None:
    assert line_of(MIXED, 1) == SINGLE
    assert line_of(MIXED, 2) == BOTH
    assert opening_of(MIXED) == opening_of(BOTH) == SINGLE
    sheet = Sheet((16,))
    sheet.add(SINGLE, 16, 1, 0.3)
    sheet.add(BOTH, 16, 4, 0.5)
    assert (sheet.seconds(MIXED, 16, 1), sheet.seconds(MIXED, 16, 4)) == (0.3, 0.5)
    assert (sheet.seconds(BOTH, 16, 1), sheet.seconds(SINGLE, 16, 4)) == (None, None)


def test_medians() -> None:
    sheet = Sheet((16,))
    for seconds in (0.3, 9.0, 0.1):
        sheet.add(BOTH, 16, 1, seconds)
    assert sheet.count(BOTH, 16, 1) == 3
    assert sheet.plain(BOTH) == (0.3,)


def test_tables_hold_what_was_measured_everywhere() -> None:
    sheet = Sheet((16, 64))
    assert sheet.table(BOTH, (1, 2)) is None
    for context, width in ((16, 1), (64, 1), (16, 2), (64, 2), (16, 4)):
        sheet.add(BOTH, context, width, 0.01 * width * context)
    table = sheet.table(BOTH, (1, 2, 4))
    assert table is not None
    assert (table.contexts, table.widths, table.is_partial) == ((16, 64), (1, 2), True)
    whole = sheet.table(BOTH, (1, 2))
    assert whole is not None
    assert not whole.is_partial


def test_a_context_without_a_plain_pass_is_left_out() -> None:
    sheet = Sheet((16, 64))
    sheet.add(BOTH, 16, 1, 0.1)
    sheet.add(BOTH, 64, 2, 0.1)
    table = sheet.table(BOTH, (1, 2))
    assert table is not None
    assert (table.contexts, table.widths, table.is_partial) == ((16,), (1,), True)


def test_times_are_taken_back() -> None:
    sheet = Sheet((16,))
    for seconds in (0.3, 9.0):
        sheet.add(MIXED, 16, 1, seconds)
    sheet.take_back(MIXED, 16, 1, 9.0)
    assert (sheet.count(SINGLE, 16, 1), sheet.plain(SINGLE)) == (1, (0.3,))
    sheet.take_back(MIXED, 16, 1, 0.3)
    assert (sheet.count(MIXED, 16, 1), sheet.plain(MIXED), sheet.table(MIXED, (1,))) == (0, (), None)


def test_other_contexts_are_another_sheet() -> None:
    sheet = Sheet((16,))
    sheet.died = {SINGLE: "died: of nothing"}
    sheet.add(BOTH, 16, 1, 0.3)
    sheet.begin((16, 64), 0.01)
    assert (sheet.contexts, sheet.token_seconds, sheet.plain(BOTH)) == ((16, 64), 0.01, ())
    assert sheet.died


SAMPLES = st.tuples(
    st.sampled_from([BOTH, MIXED, replace(BOTH, extra_buffers=False)]),
    st.sampled_from([16, 64]),
    st.integers(1, 8),
    st.floats(1e-6, 10.0),
)


@given(st.lists(SAMPLES, max_size=20))
def test_a_sheet_comes_back_from_its_text(samples: list[tuple[LlamaSettings, int, int, float]]) -> None:
    sheet = Sheet((16, 64))
    sheet.widest, sheet.token_seconds, sheet.died = 8, 0.01, {SINGLE: "died: of nothing"}
    for sample in samples:
        sheet.add(*sample)
    read = Sheet.from_text(sheet.to_text())
    assert read.to_text() == sheet.to_text()
    assert (read.contexts, read.widest, read.token_seconds) == (sheet.contexts, sheet.widest, sheet.token_seconds)
    assert read.died == sheet.died


@pytest.mark.parametrize("text", ["", "{]", "[]", "{}", '{"contexts": [1], "widest": 1, "samples": [[1]], "died": []}'])
def test_other_texts_are_no_sheets(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Sheet.from_text(text)
