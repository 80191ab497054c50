"""A pass beyond its limit ends early, the target is as it was before, and nobody takes it for an interrupt."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import llama_cpp
import pytest

from edgespec.backend.llama.target import Interrupted, Late, LlamaTarget
from edgespec.errors import EngineFailure
from edgespec.spec.tree import EMPTY
from tests.backend.conftest import SETTINGS, OpenTarget, Toys
from tests.backend.llama.driving import ids, peek, read, same, text_of, tree, verify
from tools.make_toy_model import Kind

TEXT = text_of(1, 60)
BUSH = tree([1, 2, 3, 4], [-1, 0, -1, 2])
LIMIT_SECONDS = 0.001


@contextmanager
def slow(target: LlamaTarget, before: bool = True, also: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Passes wait for their deadline, before they begin or when they have ended, and then do something `also`."""
    decode = llama_cpp.llama_decode

    def slow_decode(context: llama_cpp.llama_context_p, batch: llama_cpp.llama_batch) -> int:
        code = 0 if before else int(decode(context, batch))
        while not target._abort.expired:
            time.sleep(0.001)
        also()
        return int(decode(context, batch)) if before else code

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(llama_cpp, "llama_decode", slow_decode)
        target.limit_passes(LIMIT_SECONDS)
        yield
    target.limit_passes(math.inf)


@pytest.mark.parametrize("kind", [Kind.LLAMA, Kind.GEMMA3, Kind.MOE])
def test_a_late_pass_leaves_the_cache_and_the_next_one_as_they_were(
    kind: Kind, toys: Toys, open_target: OpenTarget
) -> None:
    target = open_target(toys.path(kind))
    read(target, TEXT)
    expected = peek(target, [9], BUSH, 8)
    for _ in range(3):
        with slow(target), pytest.raises(Late):
            target.extend(0, ids([1, 2]))
        with slow(target), pytest.raises(target.late):
            verify(target, [9], BUSH, 8)
    assert target.length(0) == 60
    assert all(same(a, b) for a, b in zip(expected, peek(target, [9], BUSH, 8), strict=True))


def test_a_late_pass_is_repeated_as_if_it_had_not_been(toys: Toys, open_target: OpenTarget) -> None:
    target, plain = open_target(toys.path()), open_target(toys.path())
    for one in (target, plain):
        read(one, TEXT)
    with slow(target), pytest.raises(Late):
        target.extend(0, ids([5, 6, 7]))
    for one in (target, plain):
        one.extend(0, ids([5, 6, 7]))
    with slow(target), pytest.raises(Late):
        verify(target, [9], BUSH, 8)
    pair = (verify(one, [9], BUSH, 8) for one in (target, plain))
    assert all(same(a, b) for a, b in zip(*pair, strict=True))


def test_an_interrupt_and_a_deadline_at_once_are_an_interrupt(toys: Toys, open_target: OpenTarget) -> None:
    target = open_target(toys.path())
    read(target, TEXT)
    expected = peek(target, [9], EMPTY, 8)
    with slow(target, also=target.interrupt), pytest.raises(Interrupted):
        verify(target, [9], EMPTY, 8)
    with pytest.raises(Interrupted):  # until it is told to resume
        verify(target, [9], EMPTY, 8)
    target.resume()
    assert same(peek(target, [9], EMPTY, 8)[0], expected[0])


def test_an_interrupt_before_a_deadline_is_an_interrupt(toys: Toys, open_target: OpenTarget) -> None:
    target = open_target(toys.path())
    target.limit_passes(LIMIT_SECONDS)
    target.interrupt()
    with pytest.raises(Interrupted):
        target.extend(0, ids([1]))
    target.resume()
    target.limit_passes(math.inf)
    target.extend(0, ids([1]))


def test_a_deadline_that_passes_when_the_pass_has_ended_does_nothing(toys: Toys, open_target: OpenTarget) -> None:
    target = open_target(toys.path())
    read(target, TEXT)
    expected = peek(target, [9], BUSH, 8)
    with slow(target, before=False):
        rows = peek(target, [9], BUSH, 8)
    assert all(same(a, b) for a, b in zip(expected, rows, strict=True))
    target.extend(0, ids([1]))
    assert target.length(0) == 61


def test_an_interrupt_when_the_pass_has_ended_out_of_time_is_kept_for_the_next(
    toys: Toys, open_target: OpenTarget
) -> None:
    target = open_target(toys.path())
    with slow(target, before=False, also=target.interrupt):
        target.extend(0, ids([1]))
    assert target.length(0) == 1
    with pytest.raises(Interrupted):
        target.extend(0, ids([2]))


def test_passes_within_their_limit_are_left_alone(toys: Toys, open_target: OpenTarget) -> None:
    target = open_target(toys.path())
    target.limit_passes(3600.0)
    read(target, TEXT)
    assert len(verify(target, [9], BUSH, 8)) == 5


def test_a_target_without_limits_starts_no_thread_and_one_with_them_ends_it(
    toys: Toys, open_target: OpenTarget
) -> None:
    n_threads = threading.active_count()
    target = open_target(toys.path())
    target.extend(0, ids([1]))
    assert threading.active_count() == n_threads
    target.limit_passes(3600.0)
    target.extend(0, ids([1]))
    assert threading.active_count() == n_threads + 1
    target.close()
    assert threading.active_count() == n_threads


@pytest.mark.parametrize("kind", [Kind.MAMBA, Kind.JAMBA])
def test_a_running_state_is_never_broken_off(kind: Kind, toys: Toys, open_target: OpenTarget) -> None:
    target = open_target(toys.path(kind))
    target.limit_passes(1e-9)
    for _ in range(20):
        read(target, TEXT)
        target.release(0)


def test_a_sibling_has_limits_of_its_own(toys: Toys, open_target: OpenTarget) -> None:
    target = open_target(toys.path())
    sibling = target.sibling(64)
    with slow(target), pytest.raises(Late):
        target.extend(0, ids([1]))
    sibling.extend(0, ids([1]))
    sibling.close()


def test_a_cache_that_is_not_as_it_was_is_an_error(
    toys: Toys, open_target: OpenTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = open_target(toys.path(), SETTINGS)
    read(target, TEXT)
    with slow(target), monkeypatch.context() as patch:
        patch.setattr(llama_cpp, "llama_memory_seq_pos_max", lambda *_: 60)
        with pytest.raises(EngineFailure, match="the cache of 60 tokens ends after 61"):
            target.extend(0, ids([1]))
