"""A real model's passes, broken off in the middle by a real deadline: nothing of them is left."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from edgespec.backend.llama.native import load_model
from edgespec.backend.llama.target import Late, LlamaTarget
from edgespec.backend.llama.vocab import LlamaVocabulary
from edgespec.backend.settings import LlamaSettings
from edgespec.backend.widths import Scope, agreeing_threads
from edgespec.spec.tree import DraftTree
from tests.backend.llama.driving import accept, ids, line, read, same, verify

pytestmark = pytest.mark.live

SETTINGS = LlamaSettings(n_ctx=1024, n_threads=1)
TEXT = (
    "The ferry had left without them, so they walked along the quay and counted the lamps. Somebody had painted every "
    "third one blue, and nobody could say why; the harbour master had asked twice and been told two different stories."
)
LIMIT_SECONDS = 0.002
PATIENCE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Pair:
    """Two targets over one model; the passes of `late` are broken off."""

    late: LlamaTarget
    plain: LlamaTarget
    prompt: list[int]


@pytest.fixture(scope="module")
def pair(starter_model: Path) -> Iterator[Pair]:
    model = load_model(starter_model, SETTINGS)
    late = LlamaTarget(model, SETTINGS)
    plain = late.sibling(SETTINGS.n_ctx)
    yield Pair(late, plain, LlamaVocabulary(model).tokenize(TEXT))
    plain.close()
    late.close()


def broken_off(target: LlamaTarget, run: Callable[[], object], undo: Callable[[], object]) -> None:
    """Run until a pass is given up. On a very fast machine it may end before anybody has looked at the clock."""
    target.limit_passes(LIMIT_SECONDS)
    until = time.monotonic() + PATIENCE_SECONDS
    try:
        while True:
            run()
            undo()
            assert time.monotonic() < until
    except Late:
        pass
    finally:
        target.limit_passes(math.inf)


def drop(target: LlamaTarget, draft: DraftTree, length: int) -> None:
    accept(target, draft, [], 0)
    target.rewind(0, length)


def test_a_chunk_and_passes_that_are_broken_off_are_repeated_as_if_nothing_had_been(pair: Pair) -> None:
    target, plain, prompt = pair.late, pair.plain, pair.prompt
    chunk = ids((prompt * 8)[:256])
    for one in (target, plain):
        read(one, prompt[:-1], chunk=64)
    length = target.length(0)
    broken_off(target, lambda: target.extend(0, chunk), lambda: target.rewind(0, length))
    assert target.length(0) == length == target._cells.last_position(target._sequences[0]) + 1
    for one in (target, plain):
        one.extend(0, chunk)
    for width in (32, 8, 1):
        draft, length = line(prompt[1:width]), target.length(0)
        broken_off(target, partial(verify, target, prompt[:1], draft, width), partial(drop, target, draft, length))
        assert target.length(0) == length == target._cells.last_position(target._sequences[0]) + 1
        rows = [verify(one, prompt[:1], draft, width) for one in (target, plain)]
        assert all(same(a, b) for a, b in zip(*rows, strict=True))
        for one in (target, plain):
            accept(one, draft, list(range(width // 2)), 7)


def test_threads_that_agree_here_agree_at_another_place(pair: Pair) -> None:
    """Which do depends on the build; that what was found holds, does not. Flash attention is off."""
    target = pair.plain
    target.release(0)
    text = np.array(pair.prompt * 8, np.int32)
    ticks = iter(range(10**6))
    scope = Scope(borders=(64,), max_width=4, n_rows=8)
    agreeing = agreeing_threads(target, text, (1, 2), (1, 4), lambda: next(ticks) * 1e-9, scope=scope)
    assert agreeing[0] == 1
    rows = []
    for count in agreeing:
        target.set_threads(count)
        target.release(0)
        read(target, pair.prompt, chunk=64)
        rows.append(verify(target, [5], line(pair.prompt[:3])))
        accept(target, line(pair.prompt[:3]), [], 9)
        rows[-1] += verify(target, [9])
    target.set_threads(1)
    assert all(same(a, b) for other in rows for a, b in zip(rows[0], other, strict=True))
