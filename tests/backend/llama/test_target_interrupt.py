"""Cancelling from another thread: the pass ends early, and the target is as it was before the pass."""

from __future__ import annotations

import threading

import llama_cpp
import pytest

from edgespec.backend.llama.target import Interrupted, LlamaTarget
from edgespec.backend.settings import LlamaSettings
from edgespec.spec.tree import EMPTY
from tests.backend.conftest import SETTINGS, OpenTarget, Toys
from tests.backend.llama.driving import close, ids, line, peek, read, same, text_of, tree, verify
from tools.make_toy_model import Kind

TEXT = text_of(1, 60)
BUSH = tree([1, 2, 3, 4], [-1, 0, -1, 2])


class Countdown:
    """Makes the library break a pass off at its n-th poll, which it does before every operation of the graph."""

    def __init__(self, target: LlamaTarget, n: int) -> None:
        self.left = n
        self._callback = llama_cpp.ggml_abort_callback(self._poll)
        llama_cpp.llama_set_abort_callback(target._context, self._callback, None)

    def _poll(self, _data: object) -> bool:
        self.left -= 1
        return self.left <= 0


def n_polls(target: LlamaTarget) -> int:
    """Polls of one pass."""
    counter = Countdown(target, 1 << 30)
    verify(target, [1])
    target.release(0)
    return (1 << 30) - counter.left


def test_an_interrupt_with_nothing_running_ends_the_next_pass(toys: Toys, open_target: OpenTarget) -> None:
    target = open_target(toys.path())
    read(target, TEXT)
    expected = peek(target, [9], BUSH, 8)
    target.interrupt()
    for _ in range(2):  # until it is told to resume
        with pytest.raises(Interrupted):
            target.extend(0, ids([1, 2]))
        with pytest.raises(Interrupted):
            verify(target, [9], BUSH, 8)
    assert target.length(0) == 60
    target.resume()
    assert all(same(a, b) for a, b in zip(expected, peek(target, [9], BUSH, 8), strict=True))


@pytest.mark.parametrize("kind", [Kind.LLAMA, Kind.GEMMA3, Kind.MOE])
def test_an_interrupt_ends_a_pass_that_runs(
    kind: Kind, toys: Toys, open_target: OpenTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = open_target(toys.path(kind))
    read(target, TEXT)
    expected = peek(target, [9], BUSH, 8)
    decode = llama_cpp.llama_decode

    def interrupted_decode(context: llama_cpp.llama_context_p, batch: llama_cpp.llama_batch) -> int:
        target.interrupt()
        return int(decode(context, batch))

    with monkeypatch.context() as patch:
        patch.setattr(llama_cpp, "llama_decode", interrupted_decode)
        for call in (lambda: target.extend(0, ids([1, 2])), lambda: verify(target, [9], BUSH, 8)):
            with pytest.raises(Interrupted):
                call()
            target.resume()
    assert target.length(0) == 60
    assert all(same(a, b) for a, b in zip(expected, peek(target, [9], BUSH, 8), strict=True))


def test_the_error_is_the_one_that_the_target_names(toys: Toys, open_target: OpenTarget) -> None:
    target = open_target(toys.path())
    target.interrupt()
    with pytest.raises(target.interrupted):
        target.extend(0, ids([1]))


@pytest.mark.parametrize(
    ("kind", "settings"),
    [(Kind.LLAMA, SETTINGS), (Kind.MOE, SETTINGS), (Kind.GEMMA3, SETTINGS), (Kind.GEMMA3, SETTINGS.windowed())],
    ids=["llama", "moe", "windows-full", "windows-small"],
)
def test_a_pass_broken_off_anywhere_changes_nothing(
    kind: Kind, settings: LlamaSettings, toys: Toys, open_target: OpenTarget
) -> None:
    """Also when the cells of the broken pass took the place of what a window had passed."""
    equal = same if settings.swa_full else close
    n = n_polls(open_target(toys.path(kind), settings))
    draft = BUSH if open_target(toys.path(kind), settings).capabilities.max_leaves > 1 else line([1, 2, 3])
    for at in (1, n // 3, n // 2, n - 1):
        target, plain = open_target(toys.path(kind), settings), open_target(toys.path(kind), settings)
        for one in (target, plain):
            read(one, text_of(2, 600))
            read(one, TEXT, sequence=1)
        countdown = Countdown(target, at)
        for _ in range(2):
            with pytest.raises(Interrupted):
                target.extend(0, ids(TEXT))
            with pytest.raises(Interrupted):
                verify(target, [9], draft, 8, sequence=1)
        assert countdown.left <= 0
        countdown.left = 1 << 30
        assert (target.length(0), target.length(1)) == (600, 60)
        for sequence in (0, 1):
            pair = (verify(one, [9], draft, 8, sequence) for one in (target, plain))
            assert all(equal(a, b) for a, b in zip(*pair, strict=True))


def read_for_ever(target: LlamaTarget, reading: threading.Event) -> None:
    while True:
        reading.set()
        target.extend(0, ids(text_of(3, 256)))
        target.rewind(0, 60)


def test_another_thread_can_interrupt_a_running_pass(toys: Toys, open_target: OpenTarget) -> None:
    """Whenever the wish arrives, in a pass or between two, it ends the reading."""
    target = open_target(toys.path())
    read(target, TEXT)
    expected = peek(target, [9], EMPTY, 8)
    reading = threading.Event()

    def interrupt() -> None:
        reading.wait()
        target.interrupt()

    other = threading.Thread(target=interrupt)
    other.start()
    with pytest.raises(Interrupted):
        read_for_ever(target, reading)
    other.join()
    target.resume()
    assert target.length(0) == 60
    assert same(peek(target, [9], EMPTY, 8)[0], expected[0])


def test_a_sibling_is_interrupted_with_its_parent(toys: Toys, open_target: OpenTarget) -> None:
    target = open_target(toys.path())
    sibling = target.sibling(64)
    target.interrupt()
    with pytest.raises(Interrupted):
        sibling.extend(0, ids([1]))
    target.resume()
    sibling.extend(0, ids([1]))
    sibling.close()
