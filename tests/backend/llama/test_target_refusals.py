"""What the library would answer with an abort, or with wrong logits in silence, is a Python error before it is called.

After each refusal the target goes on as if nothing had been asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import llama_cpp
import pytest

from edgespec.backend.llama.target import LlamaTarget
from edgespec.backend.settings import LlamaSettings
from edgespec.errors import ContextOverflow, EngineFailure
from edgespec.spec.ports import Commit, VerifyRequest
from edgespec.spec.tree import EMPTY, DraftTree
from tests.backend.conftest import OpenTarget, Toys
from tests.backend.llama.driving import accept, ids, line, peek, read, same, text_of, tree, verify
from tools.make_toy_model import Kind

SMALL = LlamaSettings(n_ctx=96, n_threads=1, prefill_chunk=48, max_rows=8, max_leaves=3, max_sequences=2)
N_VOCAB = 448
TEXT = text_of(1, 40)


def request(sequence: int, pending: list[int], draft: DraftTree = EMPTY) -> VerifyRequest:
    return VerifyRequest(sequence, ids(pending), draft, False)


def bush(n_leaves: int) -> DraftTree:
    return tree(list(range(n_leaves)), [-1] * n_leaves)


@contextmanager
def untouched(target: LlamaTarget, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Within, no pass of the library may begin; afterwards the target says what it said before."""
    before = peek(target, [9], line([1, 2]), 8)
    lengths = [target.length(sequence) for sequence in range(8)]

    def forbidden(*_arguments: object) -> int:
        raise AssertionError("the library was called")

    with monkeypatch.context() as patch:
        patch.setattr(llama_cpp, "llama_decode", forbidden)
        yield
    assert [target.length(sequence) for sequence in range(8)] == lengths
    assert all(same(a, b) for a, b in zip(before, peek(target, [9], line([1, 2]), 8), strict=True))


BAD_PASSES: dict[str, Callable[[LlamaTarget], object]] = {
    "more rows than the width": lambda t: t.verify([request(0, [1], line([2, 3, 4]))], 3),
    "more rows than a pass holds": lambda t: t.verify([request(0, [1], line([2] * 8))], 9),
    "a width beyond the pass": lambda t: t.verify([request(0, [1])], 9),
    "no width": lambda t: t.verify([request(0, [1])], 0),
    "no request": lambda t: t.verify([], 1),
    "no pending token": lambda t: t.verify([request(0, [], line([1]))], 4),
    "more leaves than ids": lambda t: t.verify([request(0, [1], bush(4))], 8),
    "a sequence twice": lambda t: t.verify([request(0, [1]), request(0, [2])], 8),
    "a longer chunk": lambda t: t.extend(0, ids(text_of(1, 49))),
    "a negative token": lambda t: t.extend(0, ids([1, -1])),
    "a token beyond the vocabulary": lambda t: t.extend(0, ids([N_VOCAB])),
    "a pending token beyond": lambda t: t.verify([request(0, [N_VOCAB])], 8),
    "a negative draft": lambda t: t.verify([request(0, [1], line([2, -7]))], 8),
    "a draft beyond": lambda t: t.verify([request(0, [1], tree([2, 1 << 30], [-1, -1]))], 8),
    "a commit without a verify": lambda t: accept(t, EMPTY, [], 5),
    "a commit of an unknown sequence": lambda t: accept(t, EMPTY, [], 5, sequence=7),
}


@pytest.mark.parametrize("what", BAD_PASSES)
def test_a_bad_call_never_reaches_the_library(
    what: str, toys: Toys, open_target: OpenTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = open_target(toys.path(), SMALL)
    read(target, TEXT)
    with untouched(target, monkeypatch), pytest.raises(ValueError, match=r"\w"):
        BAD_PASSES[what](target)


def test_a_full_context_never_reaches_the_library(
    toys: Toys, open_target: OpenTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All sequences share the cells; a verify pass has room of its own, so that decoding can fill them to the last."""
    target = open_target(toys.path(), SMALL)
    read(target, TEXT)
    read(target, text_of(2, 40), sequence=1)
    for sequence in (0, 1, 5):
        with untouched(target, monkeypatch), pytest.raises(ContextOverflow, match="the context holds 96 and 80 are"):
            target.extend(sequence, ids(text_of(3, 17)))
    read(target, text_of(2, 56), sequence=1)
    for length in range(56, 64):
        verify(target, [1], EMPTY, 1, sequence=1)
        accept(target, EMPTY, [], 2, sequence=1)
        assert target.length(1) == length + 1
    for draft, sequence in ((EMPTY, 0), (line([1, 2]), 1)):
        with pytest.raises(ContextOverflow):
            verify(target, [1], draft, 8, sequence)
    target.release(1)
    assert peek(target, [9])[0].shape == (N_VOCAB,)


def test_a_pass_of_two_sequences_fits_as_a_whole(toys: Toys, open_target: OpenTarget) -> None:
    target = open_target(toys.path(), SMALL)
    for sequence in (0, 1):
        read(target, text_of(sequence, 48), sequence)
    both = [request(0, [1], line([2, 3, 4])), request(1, [1], line([2, 3, 4]))]
    target.verify(both, 8)
    for sequence in (0, 1):
        accept(target, line([2, 3, 4]), [0, 1, 2], 5, sequence)
    with pytest.raises(ContextOverflow):  # 96 + 8 cells are full
        target.verify([request(0, [1]), request(1, [1])], 2)


def test_a_pass_that_awaits_its_commit_keeps_its_sequence_to_itself(
    toys: Toys, open_target: OpenTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = open_target(toys.path(), SMALL)
    read(target, TEXT)
    draft = tree([1, 2, 3], [-1, 0, -1])
    expected = peek(target, [9, 1], line([2]), 8)
    verify(target, [9], draft, 8)
    calls: list[Callable[[], object]] = [
        lambda: verify(target, [9], EMPTY, 8),
        lambda: target.extend(0, ids([1])),
        lambda: target.rewind(0, 3),
        lambda: accept(target, draft, [0, 2], 4),  # 2 is no child of 0
        lambda: target.commit(0, Commit(ids([3]), ids([1, 4]))),
        lambda: target.commit(0, Commit(ids([-1]), ids([3, 4]))),
        lambda: target.commit(0, Commit(ids([0]), ids([7, 4]))),  # node 0 is token 1
        lambda: target.commit(0, Commit(ids([0]), ids([1]))),
        lambda: target.commit(0, Commit(ids([]), ids([]))),
    ]
    with monkeypatch.context() as patch:
        patch.setattr(llama_cpp, "llama_decode", None)
        for call in calls:
            with pytest.raises(ValueError, match=r"awaits a commit|path"):
                call()
    read(target, text_of(4, 20), sequence=1)  # others go on
    assert accept(target, draft, [0], 2).tolist() == [2]
    with pytest.raises(ValueError, match="without a verify"):
        accept(target, draft, [0], 2)
    assert same(peek(target, [2], EMPTY, 8)[0], expected[1])


def test_a_pass_that_awaits_its_commit_can_be_given_up(toys: Toys, open_target: OpenTarget) -> None:
    target = open_target(toys.path(), SMALL)
    read(target, TEXT)
    verify(target, [9], bush(3), 8)
    target.release(0)
    read(target, TEXT)
    assert target.length(0) == 40
    verify(target, [9], bush(3), 8)


def test_an_empty_chunk_is_nothing(toys: Toys, open_target: OpenTarget) -> None:
    target = open_target(toys.path(), SMALL)
    target.extend(0, ids([]))
    assert target.length(0) == 0


def test_a_sequence_may_begin_with_a_verify(toys: Toys, open_target: OpenTarget) -> None:
    """A prompt of one token has nothing to be read before."""
    target = open_target(toys.path(), SMALL)
    verify(target, [9], bush(3), 8)
    assert accept(target, bush(3), [2], 6).tolist() == [6]
    assert target.length(0) == 2


# -- the library's own failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Kind.LLAMA, Kind.GEMMA3, Kind.MAMBA])
def test_a_batch_that_the_library_refuses_changes_nothing(
    kind: Kind, toys: Toys, open_target: OpenTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token that slips through all checks is -1 from the library itself."""
    target = open_target(toys.path(kind))
    read(target, TEXT)
    expected = open_target(toys.path(kind))
    read(expected, TEXT)
    monkeypatch.setattr(target, "_n_vocab", 1 << 31)
    with pytest.raises(EngineFailure, match=r"llama_decode returned -1 for 2 tokens: invalid token\[1\] = 448"):
        target.extend(0, ids([1, N_VOCAB]))
    monkeypatch.undo()
    assert target.length(0) == 40
    assert same(verify(target, [9])[0], verify(expected, [9])[0])


def test_a_pass_that_breaks_off_leaves_no_half_state(
    toys: Toys, open_target: OpenTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """-3, a failed computation: what can roll back does, and a running state is given up as a whole."""
    decode = llama_cpp.llama_decode

    def broken(context: llama_cpp.llama_context_p, batch: llama_cpp.llama_batch) -> int:
        assert decode(context, batch) == 0
        return -3

    for kind, kept in ((Kind.LLAMA, 40), (Kind.MAMBA, 0)):
        target = open_target(toys.path(kind))
        read(target, TEXT)
        with monkeypatch.context() as patch:
            patch.setattr(llama_cpp, "llama_decode", broken)
            with pytest.raises(EngineFailure, match="returned -3"):
                target.extend(0, ids([1, 2]))
        assert target.length(0) == kept
        read(target, TEXT)
        fresh = open_target(toys.path(kind))
        read(fresh, TEXT)
        assert same(verify(target, [9])[0], verify(fresh, [9])[0])
