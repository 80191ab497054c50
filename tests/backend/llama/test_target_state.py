"""Recurrent and hybrid models: plain decoding works, and whatever would need to go back is refused."""

from __future__ import annotations

import llama_cpp
import pytest

from edgespec.backend.llama.target import Interrupted
from edgespec.spec.ports import VerifyRequest
from edgespec.spec.tree import EMPTY
from tests.backend.conftest import OpenTarget, Toys
from tests.backend.llama.driving import accept, close, ids, line, read, same, step, text_of, tree, verify
from tools.make_toy_model import Kind

TEXT = text_of(1, 40)

pytestmark = pytest.mark.parametrize("kind", [Kind.MAMBA, Kind.JAMBA])


def test_it_says_what_it_cannot(kind: Kind, toys: Toys, open_target: OpenTarget) -> None:
    """One row for each sequence, and no draft."""
    can = open_target(toys.path(kind)).capabilities
    assert (can.can_rollback, can.max_leaves, can.max_rows) == (False, 1, 4)


def test_plain_decoding_says_what_reading_says(kind: Kind, toys: Toys, open_target: OpenTarget) -> None:
    """Token by token or in chunks: the same text, up to the rounding of other widths."""
    decoding, reading, chunked = (open_target(toys.path(kind)) for _ in range(3))
    read(decoding, TEXT[:20])
    read(reading, TEXT[:20])
    read(chunked, TEXT)
    for token in TEXT[20:]:
        step(decoding, token, 1)
        reading.extend(0, ids([token]))
    assert decoding.length(0) == reading.length(0) == 40
    row = verify(decoding, [9])[0]
    assert same(row, verify(reading, [9])[0])
    assert close(row, verify(chunked, [9])[0])


def test_going_back_means_starting_anew(kind: Kind, toys: Toys, open_target: OpenTarget) -> None:
    target, fresh = open_target(toys.path(kind)), open_target(toys.path(kind))
    read(target, TEXT)
    assert target.rewind(0, 40) == 40
    assert target.rewind(0, 50) == 40
    assert target.rewind(0, 39) == 0
    assert target.length(0) == 0
    for one in (target, fresh):
        read(one, TEXT[:39])
    assert same(verify(target, [9])[0], verify(fresh, [9])[0])


def test_drafts_and_padding_are_refused(kind: Kind, toys: Toys, open_target: OpenTarget) -> None:
    target, fresh = open_target(toys.path(kind)), open_target(toys.path(kind))
    read(target, TEXT)
    read(fresh, TEXT)
    with pytest.raises(ValueError, match="drafts without rollback"):
        verify(target, [9], line([1]))
    with pytest.raises(ValueError, match="drafts without rollback"):
        verify(target, [9], tree([1, 2], [-1, -1]))
    with pytest.raises(ValueError, match="drafts without rollback"):
        verify(target, [9, 8])
    with pytest.raises(ValueError, match="padding without rollback"):
        verify(target, [9], EMPTY, 2)
    assert same(verify(target, [9])[0], verify(fresh, [9])[0])


def test_sequences_share_a_pass(kind: Kind, toys: Toys, open_target: OpenTarget) -> None:
    together, apart = open_target(toys.path(kind)), open_target(toys.path(kind))
    for target in (together, apart):
        for sequence in range(4):
            read(target, text_of(sequence, 20 + sequence), sequence)
    for token in range(5):
        requests = [VerifyRequest(sequence, ids([token]), EMPTY, False) for sequence in range(4)]
        rows = [one.logits(0).copy() for one in together.verify(requests, 4)]
        for sequence, row in enumerate(rows):
            assert close(row, step(apart, token, 1, sequence))
            accept(together, EMPTY, [], 0, sequence)
    assert [together.length(sequence) for sequence in range(4)] == [25, 26, 27, 28]


def test_ids_come_back(kind: Kind, toys: Toys, open_target: OpenTarget) -> None:
    target, fresh = open_target(toys.path(kind)), open_target(toys.path(kind))
    for sequence in range(20):
        read(target, text_of(sequence, 10), sequence)
        target.release(sequence)
    read(target, TEXT, sequence=99)
    read(fresh, TEXT)
    assert same(verify(target, [9], sequence=99)[0], verify(fresh, [9])[0])


def test_an_interrupt_takes_effect_between_passes(kind: Kind, toys: Toys, open_target: OpenTarget) -> None:
    """In the middle of a pass it would cost the state; so a pass that runs is let end."""
    target, fresh = open_target(toys.path(kind)), open_target(toys.path(kind))
    for one in (target, fresh):
        read(one, TEXT)
    target.interrupt()
    with pytest.raises(Interrupted):
        target.extend(0, ids([1, 2]))
    with pytest.raises(Interrupted):
        verify(target, [9])
    target.resume()
    assert target.length(0) == 40
    assert same(verify(target, [9])[0], verify(fresh, [9])[0])


def test_a_pass_that_runs_is_let_end(
    kind: Kind, toys: Toys, open_target: OpenTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt that comes when the library has begun: broken off, the pass would take the state with it."""
    target, fresh = open_target(toys.path(kind)), open_target(toys.path(kind))
    decode = llama_cpp.llama_decode

    def interrupted_decode(context: llama_cpp.llama_context_p, batch: llama_cpp.llama_batch) -> int:
        target.interrupt()
        return int(decode(context, batch))

    read(target, TEXT)
    with monkeypatch.context() as patch:
        patch.setattr(llama_cpp, "llama_decode", interrupted_decode)
        target.extend(0, ids([1, 2, 3]))
    with pytest.raises(Interrupted):
        target.extend(0, ids([4]))
    target.resume()
    assert target.length(0) == 43
    read(fresh, TEXT)
    fresh.extend(0, ids([1, 2, 3]))
    assert same(verify(target, [9])[0], verify(fresh, [9])[0])
