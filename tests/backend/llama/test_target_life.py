"""Sequence ids shared among sequences, siblings, closing: everything about a target but its passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from edgespec.backend.llama import native
from edgespec.backend.llama.native import load_model
from edgespec.backend.llama.target import LlamaTarget
from edgespec.backend.settings import FlashAttention, LlamaSettings
from edgespec.errors import EngineFailure, NotEnoughMemory, StaleRows
from edgespec.spec.ports import VerifyRequest
from edgespec.spec.tree import EMPTY, DraftTree
from tests.backend.conftest import SETTINGS, OpenTarget, Toys
from tests.backend.llama.driving import accept, close, ids, line, peek, read, same, step, text_of, tree, verify
from tools.make_toy_model import Kind

SMALL = LlamaSettings(n_ctx=96, n_threads=1, prefill_chunk=48, max_rows=8, max_leaves=3, max_sequences=2)
TEXT = text_of(1, 40)


def bush(n_leaves: int) -> DraftTree:
    return tree(list(range(n_leaves)), [-1] * n_leaves)


@pytest.mark.parametrize("rows", [1, 4, 5, 32])
def test_any_number_of_rows_goes_with_any_number_of_ids(rows: int, toys: Toys, open_target: OpenTarget) -> None:
    """llama.cpp keeps an output row for every id, and aborts when it was told to expect fewer."""
    target = open_target(toys.path(), replace(SMALL, max_rows=rows, max_leaves=8, max_sequences=32))
    read(target, TEXT)
    assert len(verify(target, [9], EMPTY, rows)) == 1


def test_ids_are_taken_from_those_that_need_none(toys: Toys, open_target: OpenTarget) -> None:
    """2 x 3 ids: two sequences with three leaves each, or six with one, in any order."""
    target = open_target(toys.path(), SMALL)
    for sequence in (0, 1):
        read(target, text_of(sequence, 8), sequence)
        verify(target, [1], bush(3), 8, sequence)
        accept(target, bush(3), [1], 2, sequence)
    assert target.capabilities.max_leaves == 3
    for sequence in (2, 3, 4, 5):
        read(target, text_of(sequence, 8), sequence)
    assert target.capabilities.max_leaves == 1
    for refused in (lambda: read(target, TEXT, sequence=6), lambda: verify(target, [1], bush(3), 8, 0)):
        with pytest.raises(EngineFailure, match="all sequence ids are in use"):
            refused()
    assert target.length(6) == 0
    for sequence in (2, 3, 4):
        target.release(sequence)
    assert target.capabilities.max_leaves == 2
    verify(target, [2], bush(3), 8, 0)
    accept(target, bush(3), [0], 3, 0)
    assert [target.length(sequence) for sequence in (0, 1, 5)] == [12, 10, 8]


def test_a_pass_that_awaits_its_commit_keeps_its_ids(toys: Toys, open_target: OpenTarget) -> None:
    target, plain = open_target(toys.path(), SMALL), open_target(toys.path(), SMALL)
    verify(target, [1], bush(3), 8)
    for sequence in (1, 2, 3):
        read(target, [5], sequence)
    with pytest.raises(EngineFailure):
        read(target, [5], sequence=4)
    accept(target, bush(3), [2], 3)
    read(target, [5], sequence=4)
    for token in (1, 2):
        step(plain, token, 8)
    assert close(peek(target, [3], EMPTY, 8)[0], peek(plain, [3], EMPTY, 8)[0])


def test_trees_in_a_small_window_cache_are_refused(toys: Toys, open_target: OpenTarget) -> None:
    """They need every cell of the text to have several ids, and a ring of such cells has no room for anything new."""
    target = open_target(toys.path(Kind.GEMMA3), replace(SETTINGS, swa_full=False))
    assert target.capabilities.max_leaves == 1
    read(target, text_of(1, 700))
    with pytest.raises(ValueError, match="2 leaves"):
        verify(target, [1], bush(2), 8)
    assert len(verify(target, [1], line([2, 3]), 8)) == 3


def test_a_closed_target_says_so(toys: Toys) -> None:
    target = LlamaTarget(load_model(toys.path(), SMALL), SMALL)
    rows = target.verify([VerifyRequest(0, ids([1]), EMPTY, False)], 1)[0]
    target.close()
    target.close()
    calls: list[Callable[[], object]] = [
        lambda: target.extend(0, ids([1])),
        lambda: target.verify([VerifyRequest(0, ids([1]), EMPTY, False)], 1),
        lambda: target.rewind(0, 0),
        lambda: target.set_threads(1),
        lambda: target.sibling(64),
    ]
    for call in calls:
        with pytest.raises(EngineFailure, match="cannot use the model: it has been closed; open it again"):
            call()
    with pytest.raises(StaleRows):
        rows.logits(0)
    with pytest.raises(ValueError, match="without a verify"):
        accept(target, EMPTY, [], 1)
    target.release(0)
    target.interrupt()
    assert target.length(0) == 0
    assert target.capabilities.n_vocab == 448


def test_a_sibling_has_a_cache_of_its_own_and_shares_the_model(toys: Toys, open_target: OpenTarget) -> None:
    target = open_target(toys.path())
    read(target, TEXT)
    expected = peek(target, [9], EMPTY, 8)
    sibling = target.sibling(256)
    assert sibling.capabilities.n_ctx == 256
    assert sibling.length(0) == 0
    read(sibling, TEXT)
    assert same(verify(sibling, [9], EMPTY, 8)[0], expected[0])
    sibling.close()
    assert same(peek(target, [9], EMPTY, 8)[0], expected[0])


def test_threads_can_be_changed_between_passes(toys: Toys, open_target: OpenTarget) -> None:
    target = open_target(toys.path())
    before = peek(target, TEXT[:8])
    target.set_threads(2)
    target.set_threads(1)
    assert target.settings.n_threads == 1
    assert np.array_equal(before[0], peek(target, TEXT[:8])[0])


def test_other_settings_give_what_a_new_target_with_them_gives(toys: Toys, open_target: OpenTarget) -> None:
    other = replace(SETTINGS, flash_attention=FlashAttention.ON, prefill_chunk=32)
    fresh = open_target(toys.path(), other)
    target = open_target(toys.path(), SETTINGS)
    read(target, TEXT)
    stale = target.verify([VerifyRequest(0, ids([9]), EMPTY, False)], 1)[0]
    target.reopen(other)
    assert (target.settings, target.length(0), target.capabilities.max_chunk) == (other, 0, 32)
    with pytest.raises(StaleRows):
        stale.logits(0)
    for one in (fresh, target):
        read(one, TEXT[:20])
    assert same(verify(target, [9])[0], verify(fresh, [9])[0])


def test_settings_that_need_the_model_loaded_again_are_refused(toys: Toys, open_target: OpenTarget) -> None:
    target = open_target(toys.path(), SETTINGS)
    read(target, TEXT)
    with pytest.raises(ValueError, match="loaded again"):
        target.reopen(replace(SETTINGS, extra_buffers=not SETTINGS.extra_buffers))
    assert target.length(0) == len(TEXT)


def test_a_context_that_cannot_be_made_leaves_the_one_before(
    toys: Toys, open_target: OpenTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = open_target(toys.path(), SETTINGS)
    read(target, TEXT)
    make = native.new_context
    wanted = replace(SETTINGS, prefill_chunk=32)

    def refuse(model: native.LoadedModel, settings: LlamaSettings, n: int, abort: native.AbortFlag | None) -> object:
        if settings == wanted:
            raise NotEnoughMemory("what", "why", "remedy")
        return make(model, settings, n, abort)

    monkeypatch.setattr(native, "new_context", refuse)
    with pytest.raises(NotEnoughMemory):
        target.reopen(wanted)
    assert (target.settings, target.length(0)) == (SETTINGS, 0)
    read(target, TEXT)
    assert len(verify(target, [9], EMPTY, 1)) == 1
