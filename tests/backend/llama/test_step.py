"""A draft on libllama: whatever was run, read, kept or rolled back, it says what a fresh read of the same text says."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgespec.backend.llama.ranking import Ranker
from edgespec.backend.llama.step import STAND_IN, LlamaStep, draft_settings, open_step
from edgespec.backend.llama.target import LlamaTarget
from edgespec.backend.settings import FlashAttention, LlamaSettings
from edgespec.errors import CorruptModel, EngineFailure, UnsupportedModel
from edgespec.spec.ports import FloatArray
from edgespec.spec.step import Ranked, StepModel
from tests.backend.conftest import OpenTarget, Toys
from tests.backend.llama.driving import ROUNDING, ids, read, step, text_of
from tools.make_toy_model import N_VOCAB, Kind

SETTINGS = replace(draft_settings(256, 1, max_rows=8), prefill_chunk=16)
# A window of 32 tokens is left behind many times.
CASES = {
    "llama": (Kind.LLAMA, SETTINGS),
    "flash": (Kind.LLAMA, replace(SETTINGS, flash_attention=FlashAttention.ON)),
    "experts": (Kind.MOE, SETTINGS),
    "windows-full": (Kind.GEMMA3, SETTINGS),
    "windows-small": (Kind.GEMMA3, replace(SETTINGS, n_ctx=900).windowed()),
}
OpenStep = Callable[..., LlamaStep]


@pytest.fixture
def opened() -> Iterator[OpenStep]:
    """opened(path, settings=SETTINGS, **others): a draft that is closed afterwards."""
    steps: list[LlamaStep] = []

    def make(path: Path, settings: LlamaSettings = SETTINGS, n_ranked: int = 5, n_vocab: int = 0) -> LlamaStep:
        steps.append(open_step(path, settings, n_ranked, n_vocab))
        return steps[-1]

    yield make
    for one in steps:
        one.close()


def agree(ranked: Ranked, rows: Sequence[FloatArray], k: int = 5) -> None:
    """`ranked` is what the rows say, but for rounding, which may swap tokens that are that close."""
    twin = Ranker(len(rows[0]), k).rank(rows)
    assert ranked.ids.shape == (len(rows), k)
    assert np.abs(ranked.logits - twin.logits).max() <= ROUNDING
    assert np.abs(ranked.log_sums - twin.log_sums).max() <= ROUNDING
    own = np.take_along_axis(np.stack(rows), ranked.ids.astype(np.int64), axis=1)
    assert np.abs(ranked.logits - own).max() <= ROUNDING
    assert all(len(set(row)) == k for row in ranked.ids.tolist())


def said(plain: LlamaTarget, text: Sequence[int], n_rows: int) -> list[FloatArray]:
    """The rows of the last tokens, from a context that has read nothing else, one token at a time."""
    plain.release(0)
    read(plain, text[:-n_rows])
    return [step(plain, token, 1) for token in text[-n_rows:]]


@pytest.mark.parametrize("case", CASES)
def test_any_order_of_calls_is_as_a_fresh_read(
    case: str, toys: Toys, opened: OpenStep, open_target: OpenTarget
) -> None:
    kind, settings = CASES[case]
    rng = random.Random(case)
    model = opened(toys.path(kind), settings)
    plain = open_target(toys.path(kind), replace(settings, swa_full=True))
    text: list[int] = []
    for _ in range(60):
        start = len(text) if rng.random() < 0.5 else rng.randrange(max(0, len(text) - 24), len(text) + 1)
        n = min(rng.randrange(1, 9), model.limits.n_ctx - start)
        if n == 0:
            start, n = 3, 5
        action = rng.random()
        if action < 0.15:
            model.keep(ids(range(start, len(text))), start)
            continue
        text = text[:start] + [rng.randrange(256) for _ in range(n)]
        if action < 0.4:
            model.read(ids(text[start:]), start)
            continue
        parents = ids(range(start - 1, start + n - 1)) if rng.random() < 0.5 else None
        agree(model.run(ids(text[start:]), start, parents), said(plain, text, n))


def test_a_ring_that_cannot_go_back_is_read_again(toys: Toys, opened: OpenStep, open_target: OpenTarget) -> None:
    """After 800 tokens the ring of 256 cells holds the last ones, and what token 500 would see is gone."""
    kind, settings = CASES["windows-small"]
    model, plain = opened(toys.path(kind), settings), open_target(toys.path(kind), replace(settings, swa_full=True))
    text = text_of(1, 800)
    for at in range(0, 800, 16):
        model.read(ids(text[at : at + 16]), at)
    agree(model.run(ids(text[500:504]), 500), said(plain, text[:504], 4))
    model.read(ids(text[504:512]), 504)
    assert model._target.rewind(0, 100) == 0


def test_one_run_of_a_chain_is_its_tokens_one_by_one(toys: Toys, opened: OpenStep) -> None:
    """Passes of other widths add in another order, so the last bits may differ, and nothing else."""
    model, text = opened(toys.path()), text_of(2, 20)
    model.read(ids(text[:12]), 0)
    wide = model.run(ids(text[12:]), 12)
    model.keep(ids([]), 12)
    narrow = [model.run(ids([token]), 12 + i) for i, token in enumerate(text[12:])]
    assert np.abs(wide.logits - np.concatenate([one.logits for one in narrow])).max() <= ROUNDING
    assert np.abs(wide.log_sums - np.concatenate([one.log_sums for one in narrow])).max() <= ROUNDING
    assert np.array_equal(wide.ids[:, 0], np.concatenate([one.ids[:, 0] for one in narrow]))


def test_its_limits_are_those_of_its_settings(toys: Toys, opened: OpenStep) -> None:
    model: StepModel = opened(toys.path())
    limits = model.limits
    assert (limits.n_ctx, limits.n_vocab, limits.n_ranked) == (256, N_VOCAB, 5)
    assert (limits.max_rows, limits.max_chunk, limits.branches) == (8, 16, False)
    assert model.name == toys.path().stem


@pytest.mark.parametrize(
    ("tokens", "start", "parents"),
    [
        ([], 4, None),  # nothing to rank
        ([1] * 9, 4, None),  # more rows than a run has
        ([1], 5, None),  # behind the last known cell
        ([1], -1, None),
        ([1, N_VOCAB], 4, None),
        ([-1], 4, None),
        ([1, 2], 4, [3, 3]),  # two branches
        ([1], 4, [2]),  # continues another cell than the last
    ],
)
def test_a_run_beyond_the_limits_is_refused_and_changes_nothing(
    tokens: list[int], start: int, parents: list[int] | None, toys: Toys, opened: OpenStep
) -> None:
    model = opened(toys.path())
    model.read(ids([1, 2, 3, 4]), 0)
    with pytest.raises(ValueError, match=r"cells|run|branches|vocabulary"):
        model.run(ids(tokens), start, None if parents is None else ids(parents))
    model.run(ids([5]), 4)


def test_reading_and_keeping_have_limits_too(toys: Toys, opened: OpenStep) -> None:
    model = opened(toys.path())
    for n in (0, 17):
        with pytest.raises(ValueError, match=f"chunk of {n} tokens of 16"):
            model.read(ids([1] * n), 0)
    for at in range(0, 256, 16):
        model.read(ids([1] * 16), at)
    with pytest.raises(ValueError, match="cells 256 to 257 of 256"):
        model.read(ids([1]), 256)
    for cells, start in (([5, 7], 5), ([6], 5), ([255, 256], 255)):
        with pytest.raises(ValueError, match="no branch"):
            model.keep(ids(cells), start)
    model.keep(ids([5, 6]), 5)
    with pytest.raises(ValueError, match="of which 7 are known"):
        model.run(ids([1]), 8)


def test_the_last_cell_can_be_run(toys: Toys, opened: OpenStep, open_target: OpenTarget) -> None:
    model, text = opened(toys.path()), text_of(5, 256)
    for at in range(0, 256, 16):
        model.read(ids(text[at : at + 16]), at)
    agree(model.run(ids(text[248:]), 248), said(open_target(toys.path(), SETTINGS), text, 8))


def test_ids_that_the_target_lacks_are_never_proposed(toys: Toys, opened: OpenStep, open_target: OpenTarget) -> None:
    """And its probabilities are over what is left."""
    model, text = opened(toys.path(), n_vocab=250, n_ranked=250), text_of(6, 9)
    ranked = model.run(ids(text[:8]), 0)
    assert model.limits.n_vocab == 250
    assert sorted(ranked.ids[0].tolist()) == list(range(250))
    assert np.exp(ranked.logits.astype(np.float64) - ranked.log_sums[:, None]).sum(axis=1) == pytest.approx(1, abs=1e-4)
    rows = said(open_target(toys.path(), SETTINGS), text[:8], 8)
    agree(ranked, [row[:250] for row in rows], 250)


def test_a_token_that_it_lacks_is_read_as_another(toys: Toys, opened: OpenStep) -> None:
    model, twin = opened(toys.path(), n_vocab=N_VOCAB + 60), opened(toys.path())
    assert model.limits.n_vocab == N_VOCAB + 60
    foreign, known = model.run(ids([3, N_VOCAB + 59, 4]), 0), twin.run(ids([3, STAND_IN, 4]), 0)
    assert np.array_equal(foreign.ids, known.ids)
    assert np.array_equal(foreign.logits, known.logits)


def test_a_pass_that_fails_leaves_what_was_before_it(toys: Toys, opened: OpenStep, open_target: OpenTarget) -> None:
    model, text = opened(toys.path()), text_of(7, 40)
    for at in (0, 16):
        model.read(ids(text[at : at + 16]), at)
    model._target.interrupt()
    with pytest.raises(LlamaTarget.interrupted):
        model.run(ids([1, 2]), 20)
    with pytest.raises(ValueError, match="of which 20 are known"):
        model.run(ids([1, 2]), 21)
    model._target.resume()
    plain = open_target(toys.path(), SETTINGS)
    agree(model.run(ids(text[20:24]), 20), said(plain, text[:24], 4))


def test_a_running_state_cannot_draft(toys: Toys) -> None:
    for kind in (Kind.MAMBA, Kind.JAMBA):
        with pytest.raises(UnsupportedModel) as caught:
            open_step(toys.path(kind), SETTINGS)
        assert caught.value.what == f"cannot draft with {toys.path(kind).stem}"


def test_what_is_no_model_and_what_is_no_number_are_refused(toys: Toys, tmp_path: Path) -> None:
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(toys.path().read_bytes()[:5000])
    with pytest.raises(CorruptModel):
        open_step(bad, SETTINGS)
    with pytest.raises(ValueError, match="0 ranked"):
        open_step(toys.path(), SETTINGS, n_ranked=0)


def test_a_closed_draft_says_so(toys: Toys) -> None:
    model = open_step(toys.path(), SETTINGS)
    model.close()
    model.close()
    with pytest.raises(EngineFailure, match="closed"):
        model.run(ids([1]), 0)


def test_the_usual_settings() -> None:
    cpu, gpu = draft_settings(512, 2), draft_settings(512, 1, n_gpu_layers=-1)
    assert (cpu.n_threads, cpu.batch_threads, cpu.n_ids, cpu.n_gpu_layers) == (2, 2, 1, 0)
    assert cpu.flash_attention is FlashAttention.OFF
    assert (gpu.n_gpu_layers, gpu.flash_attention) == (-1, FlashAttention.AUTO)
