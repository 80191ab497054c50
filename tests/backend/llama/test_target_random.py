"""Many random rounds, releases and rewinds: the cache stays what plain decoding of the same text would have made."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest

from edgespec.backend.llama.target import LlamaTarget
from edgespec.backend.settings import FlashAttention, KvType
from edgespec.spec.ports import VerifyRequest
from tests.backend.conftest import SETTINGS, OpenTarget, Toys
from tests.backend.llama.driving import (
    N_TOKENS,
    accept,
    close,
    ids,
    random_path,
    random_tree,
    read,
    same,
    step,
    text_of,
)
from tools.make_toy_model import Format, Kind

WIDTH = 16
N_ROUNDS = 30
# A window of 32 tokens, so that rounds run far beyond it and a small cache is written over several times.
CASES = {
    "llama": (Kind.LLAMA, SETTINGS),
    "llama-flash": (Kind.LLAMA, replace(SETTINGS, flash_attention=FlashAttention.ON)),
    "experts": (Kind.MOE, SETTINGS),
    "windows-full": (Kind.GEMMA3, SETTINGS),
    "windows-small": (Kind.GEMMA3, SETTINGS.windowed()),
}


@dataclass(slots=True)
class Pair:
    """A target that drafts and one that decodes plainly, given the same text. The last token is pending in both."""

    drafting: LlamaTarget
    plain: LlamaTarget
    rng: random.Random
    canonical: bool
    n_prompt: int = 40
    texts: dict[int, list[int]] = field(default_factory=dict)
    pending: dict[int, list[int]] = field(default_factory=dict)

    def begin(self, sequence: int) -> None:
        text = text_of(self.rng.randrange(1000), self.rng.randrange(self.n_prompt // 2, self.n_prompt))
        for target in (self.drafting, self.plain):
            read(target, text[:-1], sequence)
        self.texts[sequence], self.pending[sequence] = text, text[-1:]

    def round(self, sequence: int) -> None:
        """One random draft, of which a random path is accepted; every row of that path is compared."""
        pending = self.pending[sequence]
        can = self.drafting.capabilities
        draft = random_tree(self.rng, self.rng.randrange(WIDTH - len(pending)), can.max_leaves)
        path = random_path(self.rng, draft)
        bonus = self.rng.randrange(N_TOKENS)
        request = VerifyRequest(sequence, ids(pending), draft, self.canonical)
        rows = self.drafting.verify([request], WIDTH)[0]
        found = [rows.logits(row).copy() for row in (0, *(node + 1 for node in path))]
        self.pending[sequence] = accept(self.drafting, draft, path, bonus, sequence).tolist()
        text = self.texts[sequence]
        for place, (row, token) in enumerate(zip(found, [*draft.tokens[path].tolist(), bonus], strict=True)):
            expected = step(self.plain, text[-1], WIDTH, sequence)
            on_principal_branch = path[:place] == list(range(place))
            equal = same if self.canonical and on_principal_branch else close
            assert equal(row, expected), f"after {len(text)} tokens"
            text.append(token)
        assert self.drafting.length(sequence) == len(text) - len(self.pending[sequence])
        assert self.plain.length(sequence) == len(text) - 1

    def rewind(self, sequence: int) -> None:
        """To a random length; what cannot be kept is read again, in both targets alike."""
        text = self.texts[sequence]
        length = self.rng.randrange(len(text) - 1)
        kept = {target.rewind(sequence, length) for target in (self.drafting, self.plain)}
        assert kept <= {0, length}
        if len(kept) == 2:  # each small cache forgets in its own rhythm when several texts share it
            assert self.drafting.n_swa
            for target in (self.drafting, self.plain):
                target.rewind(sequence, 0)
        del text[length + 1 :]
        for target in (self.drafting, self.plain):
            read(target, text[:-1], sequence)
        self.pending[sequence] = text[-1:]

    def release(self, sequence: int) -> None:
        for target in (self.drafting, self.plain):
            target.release(sequence)
        del self.texts[sequence], self.pending[sequence]


def play(pair: Pair, n_sequences: int) -> None:
    rng = pair.rng
    for _ in range(N_ROUNDS):
        sequence = rng.randrange(n_sequences)
        if sequence not in pair.texts:
            pair.begin(sequence)
        chance = rng.random()
        if chance < 0.05 or sum(map(len, pair.texts.values())) > 900:
            pair.release(sequence)
        elif chance < 0.15:
            pair.rewind(sequence)
        else:
            pair.round(sequence)


def make_pair(case: str, seed: int, canonical: bool, toys: Toys, open_target: OpenTarget) -> Pair:
    kind, settings = CASES[case]
    path = toys.path(kind)
    return Pair(open_target(path, settings), open_target(path, settings), random.Random(seed), canonical)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("case", [case for case in CASES if case != "windows-small"])
def test_canonical_rounds_leave_a_cache_equal_to_that_of_plain_decoding(
    case: str, seed: int, toys: Toys, open_target: OpenTarget
) -> None:
    """Bit for bit, on one sequence: beside others it depends on theirs where its cells lie."""
    play(make_pair(case, seed, True, toys, open_target), n_sequences=1)


@pytest.mark.parametrize("seed", range(3))
def test_a_small_window_cache_that_was_filled_several_times(seed: int, toys: Toys, open_target: OpenTarget) -> None:
    """Its 512 cells are a ring: new tokens take the cells of those that the window has passed."""
    path, small = toys.path(Kind.GEMMA3), SETTINGS.windowed()
    pair = Pair(open_target(path, small), open_target(path, small), random.Random(seed), canonical=False, n_prompt=700)
    play(pair, n_sequences=1)


@pytest.mark.parametrize("seed", range(2))
def test_a_small_window_cache_that_four_texts_share(seed: int, toys: Toys, open_target: OpenTarget) -> None:
    path, small = toys.path(Kind.GEMMA3), SETTINGS.windowed()
    pair = Pair(open_target(path, small), open_target(path, small), random.Random(seed), canonical=False, n_prompt=300)
    play(pair, n_sequences=4)


@pytest.mark.parametrize("n_sequences", [1, 3])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("case", CASES)
def test_fast_rounds_leave_a_cache_close_to_that_of_plain_decoding(
    case: str, seed: int, n_sequences: int, toys: Toys, open_target: OpenTarget
) -> None:
    play(make_pair(case, seed, False, toys, open_target), n_sequences)


@pytest.mark.parametrize("case", CASES)
def test_ids_come_back(case: str, toys: Toys, open_target: OpenTarget) -> None:
    pair = make_pair(case, 9, False, toys, open_target)
    full = pair.drafting.capabilities.max_leaves
    play(pair, n_sequences=3)
    for sequence in list(pair.texts):
        pair.release(sequence)
    assert pair.drafting.capabilities.max_leaves == full
    n_ids = pair.drafting.settings.n_ids
    for sequence in range(n_ids):  # every id can be had again, and no more
        pair.drafting.extend(sequence, ids([1]))
    assert [pair.drafting.length(sequence) for sequence in range(n_ids)] == [1] * n_ids


@pytest.mark.parametrize("weights", [Format.Q8_0, Format.Q4_0])
def test_canonical_rounds_of_a_quantised_model(weights: Format, toys: Toys, open_target: OpenTarget) -> None:
    path = toys.path(weights=weights, head_size=32)
    play(Pair(open_target(path), open_target(path), random.Random(1), canonical=True), n_sequences=1)


@pytest.mark.parametrize("flash", [FlashAttention.ON, FlashAttention.AUTO])
@pytest.mark.parametrize("kind", [Kind.LLAMA, Kind.GEMMA3])
def test_canonical_rounds_with_a_quantised_cache(
    kind: Kind, flash: FlashAttention, toys: Toys, open_target: OpenTarget
) -> None:
    for kv_type in (KvType.Q8_0, KvType.Q4_0):
        chosen = replace(SETTINGS, flash_attention=flash, kv_type=kv_type)
        path = toys.path(kind, head_size=32)
        pair = Pair(open_target(path, chosen), open_target(path, chosen), random.Random(2), canonical=True)
        play(pair, n_sequences=1)
