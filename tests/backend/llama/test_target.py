"""Verification and commit on the real library: trees against chains, chains against one token at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgespec.backend.settings import FlashAttention, LlamaSettings
from edgespec.errors import StaleRows
from edgespec.spec.ports import FloatArray, VerifyRequest
from edgespec.spec.tree import EMPTY, DraftTree
from tests.backend.conftest import SETTINGS, OpenTarget, Toys
from tests.backend.llama.driving import accept, close, ids, line, peek, read, same, step, text_of, tree, verify
from tools.make_toy_model import Format, Kind

KINDS = [Kind.LLAMA, Kind.GEMMA3, Kind.MOE]
OFF, ON = (replace(SETTINGS, flash_attention=flash) for flash in (FlashAttention.OFF, FlashAttention.ON))
TEXT = text_of(1, 60)
WIDTH = 12
#      0 - 1 - 2
#   .  1 - 3 - 4
#   `- 5 - 6
#       `- 7
BUSH = tree([10, 11, 12, 13, 14, 15, 16, 17], [-1, 0, 1, 0, 3, -1, 5, 5])
PATHS = [[0, 1, 2], [0, 3, 4], [5, 6], [5, 7]]


@pytest.mark.parametrize("settings", [OFF, ON], ids=["flash-off", "flash-on"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_chain_gives_the_rows_of_one_token_at_a_time(
    kind: Kind, settings: LlamaSettings, toys: Toys, open_target: OpenTarget
) -> None:
    drafting, plain = open_target(toys.path(kind), settings), open_target(toys.path(kind), settings)
    for target in (drafting, plain):
        read(target, TEXT)
    tokens = text_of(2, 9)
    rows = verify(drafting, tokens[:1], line(tokens[1:]), WIDTH)
    assert all(same(row, step(plain, token, WIDTH)) for row, token in zip(rows, tokens, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_each_node_of_a_tree_gives_the_row_of_its_path_as_a_chain(
    kind: Kind, toys: Toys, open_target: OpenTarget
) -> None:
    """Without flash attention the sums of a side branch are rounded otherwise, because other cells lie in between."""
    for settings, equal in ((ON, same), (OFF, close)):
        target = open_target(toys.path(kind), settings)
        read(target, TEXT)
        rows = peek(target, [9], BUSH, WIDTH)
        for path in PATHS:
            chained = peek(target, [9], line(BUSH.tokens[path].tolist()), WIDTH)
            assert same(chained[0], rows[0])
            assert all(equal(chained[i + 1], rows[node + 1]) for i, node in enumerate(path))
            assert all(same(chained[i + 1], rows[node + 1]) for i, node in enumerate(path) if node == i)


@pytest.mark.parametrize("kind", [*KINDS, Kind.MAMBA, Kind.JAMBA])
def test_one_token_alone_is_verified_as_in_any_pass(kind: Kind, toys: Toys, open_target: OpenTarget) -> None:
    quick, plain = open_target(toys.path(kind)), open_target(toys.path(kind))
    for target in (quick, plain):
        read(target, TEXT)
    for n, token in enumerate(text_of(3, 8)):
        request = VerifyRequest(0, ids([token]), EMPTY, canonical=bool(n % 2))
        rows = [quick.verify([request], 1), plain._verify([request], 1)]
        assert same(*(one[0].logits(0) for one in rows))
        assert [accept(target, EMPTY, [], 7).tolist() for target in (quick, plain)] == [[7], [7]]
        assert [target.length(0) for target in (quick, plain)] == [len(TEXT) + n + 1] * 2
    draft = line(text_of(4, 3)) if quick.capabilities.can_rollback else EMPTY
    assert all(map(same, *(verify(target, [9], draft) for target in (quick, plain))))


def test_wrong_paths_are_told_apart(toys: Toys, open_target: OpenTarget) -> None:
    """The tolerance of the tests above is far below what one wrong token makes."""
    target = open_target(toys.path())
    read(target, TEXT)
    rows = peek(target, [9], BUSH, WIDTH)
    for wrong in ([10, 11, 13], [11, 10, 12], [10, 12, 12]):
        assert not close(peek(target, [9], line(wrong), WIDTH)[3], rows[3])


@pytest.mark.parametrize("draft", [EMPTY, line([4, 5, 6]), BUSH], ids=["none", "chain", "tree"])
def test_padding_changes_no_row(draft: DraftTree, toys: Toys, open_target: OpenTarget) -> None:
    """The same width, filled with padding or with nodes that hang from the last one."""
    target = open_target(toys.path())
    read(target, TEXT)
    padded = peek(target, [9], draft, WIDTH)
    n = len(draft)
    more = range(WIDTH - 1 - n)
    longer = tree([*draft.tokens.tolist(), *more], [*draft.parents.tolist(), *(n - 1 + i for i in more)])
    assert len(longer) + 1 == WIDTH
    assert all(same(a, b) for a, b in zip(padded, peek(target, [9], longer, WIDTH), strict=False))


def test_several_pending_tokens_are_read_in_the_same_pass(toys: Toys, open_target: OpenTarget) -> None:
    at_once, before = open_target(toys.path()), open_target(toys.path())
    read(at_once, TEXT[:48])
    read(before, TEXT[:48])
    rows = verify(at_once, [1, 2, 3], BUSH, WIDTH)
    for token in (1, 2):
        step(before, token, WIDTH)
    assert same(rows[0], peek(before, [3], EMPTY, WIDTH)[0])
    assert accept(at_once, BUSH, [0, 3], 77).tolist() == [77]
    assert at_once.length(0) == 48 + 3 + 2


def test_sequences_in_one_pass_do_not_mix(toys: Toys, open_target: OpenTarget) -> None:
    together, apart = open_target(toys.path()), open_target(toys.path())
    for target in (together, apart):
        read(target, TEXT, sequence=5)
        read(target, text_of(7, 40), sequence=6)
    requests = [VerifyRequest(5, ids([9]), BUSH, False), VerifyRequest(6, ids([8]), line([3, 4]), False)]
    found = [
        [rows.logits(i).copy() for i in range(n)] for rows, n in zip(together.verify(requests, 16), (9, 3), strict=True)
    ]
    assert all(same(a, b) for a, b in zip(found[0], peek(apart, [9], BUSH, 16, sequence=5), strict=True))
    assert all(close(a, b) for a, b in zip(found[1], peek(apart, [8], line([3, 4]), 16, sequence=6), strict=True))
    assert accept(together, line([3, 4]), [0], 1, sequence=6).tolist() == [1]
    assert accept(together, BUSH, [5], 2, sequence=5).tolist() == [2]
    assert (together.length(5), together.length(6)) == (62, 42)


@pytest.mark.parametrize("path", [[], [0], [0, 1], [0, 1, 2], [0, 3], [0, 3, 4], [5], [5, 6], [5, 7]], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_the_cache_holds_the_accepted_path_and_nothing_else(
    kind: Kind, path: list[int], toys: Toys, open_target: OpenTarget
) -> None:
    target, fresh = open_target(toys.path(kind)), open_target(toys.path(kind))
    read(target, TEXT)
    verify(target, [9], BUSH, WIDTH)
    assert accept(target, BUSH, path, 50).tolist() == [50]
    assert target.length(0) == 61 + len(path)
    read(fresh, TEXT)
    for token in (9, *BUSH.tokens[path].tolist()):
        step(fresh, token, WIDTH)
    for draft in (EMPTY, BUSH):
        rows, expected = peek(target, [50], draft, WIDTH), peek(fresh, [50], draft, WIDTH)
        equal = same if path == list(range(len(path))) else close
        assert all(equal(a, b) for a, b in zip(rows[:1], expected[:1], strict=True))
        assert all(close(a, b) for a, b in zip(rows, expected, strict=True))


@pytest.mark.parametrize(
    ("path", "n_kept"), [([], 0), ([0, 1], 2), ([0, 1, 2], 3), ([0, 3, 4], 1), ([5, 7], 0)], ids=str
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_canonical_cache_is_bitwise_that_of_plain_decoding(
    kind: Kind, path: list[int], n_kept: int, toys: Toys, open_target: OpenTarget
) -> None:
    """What was accepted on a side branch comes back as pending, and is read again where it belongs."""
    target, plain = open_target(toys.path(kind)), open_target(toys.path(kind))
    read(target, TEXT)
    read(plain, TEXT)
    verify(target, [9], BUSH, WIDTH, canonical=True)
    text = BUSH.tokens[path].tolist()
    pending = accept(target, BUSH, path, 50).tolist()
    assert pending == [*text[n_kept:], 50]
    assert target.length(0) == 61 + n_kept
    row = verify(target, pending, line([1, 2]), WIDTH, canonical=True)[0]
    for token in (9, *text):
        step(plain, token, WIDTH)
    assert same(row, step(plain, 50, WIDTH))


def test_rows_die_with_the_next_pass(toys: Toys, open_target: OpenTarget) -> None:
    target = open_target(toys.path())
    rows = target.verify([VerifyRequest(0, ids([1]), line([2]), False)], 2)[0]
    assert rows.logits(1).shape == (target.capabilities.n_vocab,)
    assert not rows.logits(1).flags.writeable
    accept(target, line([2]), [0], 3)
    rows.logits(0)  # a drafter observes after the commit
    for row in (-1, 2):
        with pytest.raises(ValueError, match=f"row {row} of 2"):
            rows.logits(row)
    target.extend(0, ids([3]))
    with pytest.raises(StaleRows):
        rows.logits(0)


def test_a_row_is_copied_only_when_asked_for(
    toys: Toys, open_target: OpenTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = open_target(toys.path())
    asked: list[int] = []
    look_up = target.row

    def spy(row: int) -> FloatArray:
        asked.append(row)
        return look_up(row)

    monkeypatch.setattr(target, "row", spy)
    rows = target.verify([VerifyRequest(0, ids([1, 2]), line([3, 4]), False)], 8)[0]
    assert asked == []
    rows.logits(1)
    assert asked == [2]


@pytest.mark.parametrize("extra_buffers", [True, False])
@pytest.mark.parametrize("weights", list(Format))
def test_every_quantisation_verifies_as_it_decodes(
    weights: Format, extra_buffers: bool, toys: Toys, open_target: OpenTarget
) -> None:
    settings = replace(
        SETTINGS, extra_buffers=extra_buffers, n_gpu_layers=7
    )  # a build without a GPU ignores the layers
    path = toys.path(weights=weights, head_size=32)
    drafting, plain = open_target(path, settings), open_target(path, settings)
    for target in (drafting, plain):
        read(target, TEXT)
    rows = verify(drafting, [9], line([1, 2, 3]), WIDTH)
    assert all(same(row, step(plain, token, WIDTH)) for row, token in zip(rows, [9, 1, 2, 3], strict=True))
