"""Target and draft in one memory: the plan is the first of all that fits, and every step down has its numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.library.drafts import (
    CHILD_FIXED_BYTES,
    GGUF_FIXED_BYTES,
    STEP_FIXED_BYTES,
    DraftNeed,
    StepDown,
    gguf_draft,
    in_child,
    plan_together,
    step_draft,
)
from edgespec.library.header import read_header
from edgespec.library.memory import CacheShape, MemoryEstimate, budget, estimate
from edgespec.stepfile import RopeTable, StepFile
from tools.make_toy_model import SHAPES, Kind, write_toy_model

MB = 10**6


def draft(name: str, weights_mb: int, bytes_per_token: int, n_ctx: int) -> DraftNeed:
    return DraftNeed(name, MemoryEstimate(weights_mb * MB, bytes_per_token, 0, 0, 0), n_ctx)


SIZES = st.integers(0, 3000)
DRAFTS = st.lists(st.builds(draft, st.just("d"), SIZES, st.integers(0, 400_000), st.integers(1, 5000)), max_size=3)


def first_that_fits(drafts: list[DraftNeed], room: int) -> DraftNeed | None:
    """The plain twin: every draft with every context, in the order of preference."""
    for one in drafts:
        for n_ctx in (one.n_ctx, *(size for size in range(8192, 511, -256) if size <= one.n_ctx)):
            if one.need.total_bytes(n_ctx) <= room:
                return replace(one, n_ctx=n_ctx)
    return None


@given(SIZES, DRAFTS, st.integers(0, 8000))
def test_the_plan_is_the_first_that_fits(target_mb: int, drafts: list[DraftNeed], available_mb: int) -> None:
    plan = plan_together(target_mb * MB, drafts, available_mb * MB)
    room = max(0, budget(available_mb * MB) - target_mb * MB)
    assert plan.draft == first_that_fits(drafts, room)
    if plan.draft:
        assert plan.total_bytes <= plan.budget_bytes == budget(available_mb * MB) or plan.draft.total_bytes == 0
    else:
        assert plan.total_bytes == target_mb * MB


@given(SIZES, DRAFTS, st.integers(0, 8000))
def test_steps_lead_from_the_wish_to_the_outcome(target_mb: int, drafts: list[DraftNeed], available_mb: int) -> None:
    plan = plan_together(target_mb * MB, drafts, available_mb * MB)
    for step in plan.steps:
        assert step.given_up.total_bytes > step.room_bytes
        assert step.notice().code == step.kind.value
    kinds = [step.kind for step in plan.steps]
    assert all(kind is StepDown.SMALLER for kind in kinds[:-1])
    if not plan.steps:
        assert plan.draft == (drafts[0] if drafts else None)
    else:
        assert plan.draft is None or kinds[-1] is StepDown.SHORTER or plan.draft == plan.steps[-1].instead
        assert (kinds[-1] is StepDown.DRAFT_FREE) == (plan.draft is None)
        assert (kinds[-1] is StepDown.SHORTER) == (plan.draft is not None and plan.draft not in drafts)


@given(SIZES, DRAFTS, st.integers(0, 8000), st.integers(0, 2000))
def test_more_memory_never_means_less(target_mb: int, drafts: list[DraftNeed], available_mb: int, more_mb: int) -> None:
    named = [replace(one, name=str(place)) for place, one in enumerate(drafts)]
    before = plan_together(target_mb * MB, named, available_mb * MB).draft
    after = plan_together(target_mb * MB, named, (available_mb + more_mb) * MB).draft
    if before:
        assert after is not None
        assert (int(after.name), -after.n_ctx) <= (int(before.name), -before.n_ctx)


LARGE, SMALL = draft("large", 1000, 100_000, 4096), draft("small", 100, 10_000, 4096)


def notices(target_mb: int, available_mb: int) -> list[tuple[str, str]]:
    steps = plan_together(target_mb * MB, [LARGE, SMALL], available_mb * MB).steps
    return [(step.notice().code, step.notice().message) for step in steps]


def test_what_fits_is_taken_without_a_word() -> None:
    assert notices(2000, 4000) == []
    plan = plan_together(2000 * MB, [LARGE, SMALL], 4000 * MB)
    assert (plan.draft, plan.total_bytes) == (LARGE, 2000 * MB + 1000 * MB + 4096 * 100_000)


def test_first_the_draft_gets_a_shorter_context() -> None:
    assert notices(2000, 3500) == [
        (
            "draft-context",
            "the draft large needs 1.4 GB for 4096 tokens of context, and 1.1 GB are left for it: it gets 1280 tokens",
        )
    ]


def test_then_a_smaller_draft_is_tried() -> None:
    large = "the draft large needs 1.1 GB for 512 tokens of context, and 115 MB are left for it: trying small"
    small = "the draft small needs 141 MB for 4096 tokens of context, and 115 MB are left for it: it gets 1280 tokens"
    assert notices(2000, 2350) == [("draft-size", large), ("draft-context", small)]


def test_at_last_there_is_none() -> None:
    large = "the draft large needs 1.1 GB for 512 tokens of context, and 0 bytes are left for it: trying small"
    small = "the draft small needs 105 MB for 512 tokens of context, and 0 bytes are left for it: "
    none = "drafting without a second model"
    assert notices(2000, 1000) == [("draft-size", large), ("draft-free", small + none)]


def test_a_memory_of_its_own_is_not_shared() -> None:
    assert plan_together(0, [LARGE], 1600 * MB).draft == LARGE


def test_a_gguf_that_drafts_brings_no_second_interpreter(tmp_path: Path) -> None:
    header = read_header(write_toy_model(tmp_path / "toy.gguf", shape=SHAPES[Kind.LLAMA]))
    shape = CacheShape(n_rows=16)
    need, whole = gguf_draft(header, shape, 1000), estimate(header, shape)
    assert (need.name, need.n_ctx, need.need.weights_bytes) == ("toy", 1000, header.tensor_bytes)
    assert need.need.bytes_per_token == whole.bytes_per_token
    assert need.need.buffers_bytes == GGUF_FIXED_BYTES + 2 * 4 * 448 * 16 < whole.buffers_bytes
    assert gguf_draft(header, shape, 1000, "other").name == "other"


@pytest.mark.parametrize(("wished", "given_n_ctx"), [(1000, 1000), (9999, 2048)])
def test_a_step_model_counts_its_folder_and_its_cells(wished: int, given_n_ctx: int) -> None:
    """Keys and values of 30 blocks of 3 heads of 64, 4 bytes each, twice while buffers grow."""
    rope = (RopeTable(10_000.0, 64, 1.0),)
    file = StepFile("llama", "toy", "0", tuple(range(30)), 49152, 576, 9, 3, 64, 30, 1.0, rope, 16, (1, 8), 2048, "0")
    need = step_draft("toy", file, 168 * MB, wished)
    per_token = 2 * 2 * 30 * 3 * 64 * 4
    assert (need.name, need.n_ctx) == ("toy", given_n_ctx)
    assert need.total_bytes == 168 * MB + STEP_FIXED_BYTES + per_token * given_n_ctx


def test_a_process_of_its_own_counts_once() -> None:
    assert in_child(LARGE).total_bytes == LARGE.total_bytes + CHILD_FIXED_BYTES
    assert replace(in_child(LARGE), need=LARGE.need) == LARGE
