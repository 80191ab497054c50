"""Going back: after a rewind the target says what a fresh one says that read the same text in the same chunks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from edgespec.backend.llama.target import LlamaTarget
from edgespec.backend.settings import FlashAttention, LlamaSettings
from edgespec.spec.ports import FloatArray
from tests.backend.conftest import SETTINGS, OpenTarget, Toys
from tests.backend.llama.driving import accept, close, line, peek, read, same, step, text_of, verify
from tools.make_toy_model import Kind

CHUNK = 16
# Cells of a small window cache: a window for each of its 4 ids and room for one chunk, in multiples of 256.
N_RING = 512
FLASH = replace(SETTINGS, flash_attention=FlashAttention.ON)


Equal = Callable[[FloatArray, FloatArray], bool]


def agree(target: LlamaTarget, fresh: LlamaTarget, token: int = 5, equal: Equal = same) -> bool:
    """Whether both give the same rows for the next tokens."""
    rows = peek(target, [token], line([7, 8, 9]), 8)
    return all(equal(a, b) for a, b in zip(rows, peek(fresh, [token], line([7, 8, 9]), 8), strict=True))


@pytest.mark.parametrize("settings", [SETTINGS, FLASH], ids=["flash-off", "flash-on"])
@pytest.mark.parametrize("kind", [Kind.LLAMA, Kind.MOE, Kind.GEMMA3])
def test_any_length_can_be_gone_back_to(
    kind: Kind, settings: LlamaSettings, toys: Toys, open_target: OpenTarget
) -> None:
    text = text_of(3, 97)
    target, fresh = open_target(toys.path(kind), settings), open_target(toys.path(kind), settings)
    read(target, text[:-1], chunk=CHUNK)
    for length in range(80, -1, -CHUNK):
        assert target.rewind(0, length) == length
        assert target.length(0) == length
        fresh.release(0)
        read(fresh, text[:length], chunk=CHUNK)
        assert agree(target, fresh)


def test_a_text_is_read_on_after_going_back_into_the_middle_of_a_chunk(toys: Toys, open_target: OpenTarget) -> None:
    """Undo and go on with other words; the twin never read the words that were undone."""
    text, other = text_of(3, 43), text_of(4, 60)
    target, fresh = open_target(toys.path()), open_target(toys.path())
    read(fresh, text, chunk=CHUNK)
    read(target, text + other[:30], chunk=43)
    read(fresh, text, chunk=43)
    assert target.rewind(0, 43) == 43
    fresh.release(0)
    read(fresh, text, chunk=43)
    for one in (target, fresh):
        read(one, text + other, chunk=43)
    assert agree(target, fresh)


def test_what_is_not_cached_cannot_be_gone_back_to(toys: Toys, open_target: OpenTarget) -> None:
    target = open_target(toys.path())
    assert target.rewind(0, 5) == 0
    assert target.rewind(3, 0) == 0
    read(target, text_of(1, 20))
    assert target.rewind(0, 20) == 20
    assert target.rewind(0, 30) == 20
    assert target.rewind(0, -1) == 0
    assert target.length(0) == 0


def test_going_back_keeps_accepted_drafts(toys: Toys, open_target: OpenTarget) -> None:
    target, plain = open_target(toys.path()), open_target(toys.path())
    text, draft = text_of(1, 30), line([1, 2, 3, 4])
    for one in (target, plain):
        read(one, text)
    verify(target, [9], draft, 8)
    accept(target, draft, [0, 1, 2, 3], 0)
    assert target.rewind(0, 33) == 33
    for token in (9, 1, 2):
        step(plain, token, 8)
    assert agree(target, plain)


@pytest.mark.parametrize("settings", [SETTINGS, SETTINGS.windowed()], ids=["full", "small"])
@pytest.mark.parametrize("window", [32, 64])
def test_a_window_is_gone_back_in_exactly_or_not_at_all(
    window: int, settings: LlamaSettings, toys: Toys, open_target: OpenTarget
) -> None:
    """A full-size cache keeps everything; a small one only what later tokens may look at, and then some."""
    text = text_of(5, 641)
    path = toys.path(Kind.GEMMA3, window=window)
    target, fresh = open_target(path, settings), open_target(path, settings)
    kept: set[int] = set()
    for length in range(0, 640, 112):
        target.release(0)
        read(target, text[:-1], chunk=CHUNK)
        if target.rewind(0, length) == length:
            kept.add(length)
        assert target.length(0) in (0, length)
        read(target, text[:length], chunk=CHUNK)
        fresh.release(0)
        read(fresh, text[:length], chunk=CHUNK)
        # Gone back over the end of the ring, it goes on from another cell than a fresh one.
        turned = length in kept and not settings.swa_full and length // N_RING != len(text) // N_RING
        assert agree(target, fresh, equal=close if turned else same)
    lengths = set(range(0, 640, 112))
    if settings.swa_full:
        assert kept == lengths
    else:
        assert {0, 560} <= kept < lengths
        assert max(lengths - kept) < min(kept - {0})


def test_a_small_window_can_be_gone_back_in_by_the_length_of_a_draft_and_more(
    toys: Toys, open_target: OpenTarget
) -> None:
    """So a stop string or an undone answer seldom means reading again."""
    text = text_of(5, 801)
    target = open_target(toys.path(Kind.GEMMA3), SETTINGS.windowed())
    read(target, text[:-1], chunk=CHUNK)
    assert target.rewind(0, 800 - 200) == 600


def test_a_full_size_window_that_another_text_has_written_into_is_not_trusted(
    toys: Toys, open_target: OpenTarget
) -> None:
    """When a sequence is released, llama.cpp starts to look for room from its cells on, and then takes those that a
    window has passed, although there is room at the end.
    """
    text = text_of(6, 600)
    path = toys.path(Kind.GEMMA3)
    target, fresh = open_target(path), open_target(path)
    read(target, text_of(7, 10), sequence=1)
    read(target, text[:400])
    target.release(1)
    read(target, text)
    assert target.rewind(0, 96) == 0
    for one in (target, fresh):
        read(one, text[:96])
    assert agree(target, fresh)


def test_the_shared_beginning_of_two_prompts_is_read_once(toys: Toys, open_target: OpenTarget) -> None:
    target, fresh = open_target(toys.path()), open_target(toys.path())
    shared, first, second = text_of(1, 64), text_of(2, 40), text_of(3, 40)
    read(target, shared + first)
    assert target.rewind(0, 64) == 64
    for one in (target, fresh):
        read(one, shared + second)
    assert agree(target, fresh)
