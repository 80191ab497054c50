"""The replay rule on the toy target: rounding is a tie, whatever it left in the cache; a planted defect is a bug."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import count, islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.backend.toy import ToyModel, ToyTarget
from edgespec.events import RoundReport
from edgespec.replay import Difference, Method, Run, Verdict, explain
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.ports import Capabilities, Commit, FloatArray, IntArray, Plan, Rows, Target, VerifyRequest
from edgespec.spec.tree import depths
from edgespec.spec.verify import PathVerifier
from tests.planted import Forger, LostCell, OffByOne, StaleCell, Wrapped, answer

N_VOCAB = 12
PROMPT = (3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5)
N_OUTPUT = 40
LIMITS = Capabilities(n_ctx=512, n_vocab=N_VOCAB, max_rows=16, max_chunk=4, max_leaves=4, can_rollback=True)
GREEDY = Law(SamplingSettings())
WARM = Law(SamplingSettings(temperature=0.8, top_p=0.95, repeat_penalty=1.1, seed=7))


class Trembling:
    """Rows with a small change that depends on the rounding of the cells that each row looks back on."""

    def __init__(self, inner: Rows, roundings: Callable[[int], Sequence[int]]) -> None:
        self._inner = inner
        self._roundings = roundings

    def logits(self, row: int) -> FloatArray:
        logits = self._inner.logits(row)
        seen = [int(np.abs(logits).sum() * 1000.0), *self._roundings(row)]
        return logits + ToyModel(N_VOCAB, order=len(seen), scale=0.05).logits(seen)


class WidthNoise(Wrapped):
    """Logits tremble with the width of their pass, and with nothing else."""

    def verify(self, requests: Sequence[VerifyRequest], width: int) -> list[Rows]:
        return [Trembling(rows, lambda _: [width]) for rows in self.inner.verify(requests, width)]


class RememberingNoise(Wrapped):
    """A cell keeps the rounding of the width it was computed at, as a real one does, and later rows tremble with it."""

    def __init__(self, inner: Target) -> None:
        super().__init__(inner)
        self._width = 0
        self._roundings: dict[int, list[int]] = {}

    def verify(self, requests: Sequence[VerifyRequest], width: int) -> list[Rows]:
        self._width = width
        return [
            Trembling(rows, partial(self._seen, request, width))
            for request, rows in zip(requests, self.inner.verify(requests, width), strict=True)
        ]

    def extend(self, sequence: int, tokens: IntArray) -> None:
        self.inner.extend(sequence, tokens)
        self._settle(sequence, 0)

    def commit(self, sequence: int, commit: Commit) -> IntArray:
        pending = self.inner.commit(sequence, commit)
        self._settle(sequence, self._width)
        return pending

    def release(self, sequence: int) -> None:
        self.inner.release(sequence)
        self._roundings.pop(sequence, None)

    def _settle(self, sequence: int, width: int) -> None:
        """Cells that are new in the cache were computed at this width."""
        known = self._roundings.setdefault(sequence, [])
        known += [width] * (self.length(sequence) - len(known))

    def _seen(self, request: VerifyRequest, width: int, row: int) -> list[int]:
        depth = int(depths(request.tree)[row - 1]) if row else 0
        known = self._roundings.get(request.sequence, [])
        return [*known, *[width] * (len(request.pending) + depth)][-4:]


class PlaceNoise(Wrapped):
    """Rows tremble with the cells that they look back on. Each new row takes the lowest free cell, in batch order."""

    def __init__(self, inner: Target) -> None:
        super().__init__(inner)
        self._cells: dict[int, list[int]] = {}
        self._placed: dict[int, list[int]] = {}

    def extend(self, sequence: int, tokens: IntArray) -> None:
        self.inner.extend(sequence, tokens)
        self._cells[sequence] = [*self._cells.get(sequence, []), *self._take(len(tokens))]

    def verify(self, requests: Sequence[VerifyRequest], width: int) -> list[Rows]:
        rows: list[Rows] = []
        for request, inner in zip(requests, self.inner.verify(requests, width), strict=True):
            self._placed[request.sequence] = self._take(len(request.pending) + len(request.tree))
            rows.append(Trembling(inner, partial(self._seen, request)))
        return rows

    def commit(self, sequence: int, commit: Commit) -> IntArray:
        before = self.length(sequence)
        pending = self.inner.commit(sequence, commit)
        placed = self._placed.pop(sequence)
        n_pending = self.length(sequence) - before - len(commit.path)
        kept = [*placed[:n_pending], *(placed[n_pending + node] for node in commit.path.tolist())]
        self._cells[sequence] = [*self._cells[sequence], *kept]
        return pending

    def release(self, sequence: int) -> None:
        self.inner.release(sequence)
        self._cells.pop(sequence, None)
        self._placed.pop(sequence, None)

    def _take(self, n: int) -> list[int]:
        taken = {cell for cells in (*self._cells.values(), *self._placed.values()) for cell in cells}
        return list(islice((cell for cell in count() if cell not in taken), n))

    def _seen(self, request: VerifyRequest, row: int) -> list[int]:
        placed = self._placed[request.sequence]
        n_pending, node, line = len(request.pending), row - 1, []
        while node >= 0:
            line.append(placed[n_pending + node])
            node = int(request.tree.parents[node])
        return [*self._cells.get(request.sequence, []), *placed[:n_pending], *reversed(line)][-4:]


def near_ties(seed: int) -> ToyModel:
    """Many equal logits, so that the least tremble turns the choice."""
    return ToyModel(N_VOCAB, order=3, seed=seed, n_levels=6)


def clear_cut(seed: int) -> ToyModel:
    return ToyModel(N_VOCAB, order=3, seed=seed, n_levels=0)


def toy(model: ToyModel) -> ToyTarget:
    return ToyTarget(model, LIMITS)


def compare(target: Target, law: Law, seed: int, branches: bool = False) -> Difference | None:
    plain = answer(target, law, PROMPT, N_OUTPUT)
    drafted = answer(target, law, PROMPT, N_OUTPUT, (Forger(plain.token_ids, N_VOCAB, seed, branches),))
    found = explain(target, law, plain, drafted)
    assert (found is None) == (plain.token_ids == drafted.token_ids)
    return found


@pytest.mark.parametrize("law", [GREEDY, WARM], ids=["greedy", "warm"])
@pytest.mark.parametrize("branches", [False, True], ids=["chain", "tree"])
def test_a_tremble_with_the_width_is_a_tie(law: Law, branches: bool) -> None:
    found = [compare(WidthNoise(toy(near_ties(seed))), law, seed, branches) for seed in range(12)]
    differences = [one for one in found if one is not None]
    assert len(differences) >= 3
    assert {(one.verdict, one.reproduced_by) for one in differences} == {(Verdict.TIE, Method.STRICT)}
    assert all(one.plain_width == 1 < one.drafted_width for one in differences)


def test_a_tremble_that_the_cache_remembers_is_a_tie_by_the_same_schedule() -> None:
    found = [compare(RememberingNoise(toy(near_ties(seed))), GREEDY, seed) for seed in range(30)]
    differences = [one for one in found if one is not None]
    assert {one.verdict for one in differences} == {Verdict.TIE}
    assert {one.reproduced_by for one in differences} == {Method.STRICT, Method.SCHEDULED}


def test_where_a_side_branch_lay_in_the_cache_is_repeated() -> None:
    found = [compare(PlaceNoise(toy(near_ties(seed))), GREEDY, seed, branches=True) for seed in range(12)]
    differences = [one for one in found if one is not None]
    assert len(differences) >= 3
    assert {one.verdict for one in differences} == {Verdict.TIE}


@given(
    seed=st.integers(0, 2**32),
    law=st.sampled_from([GREEDY, WARM]),
    noise=st.sampled_from([WidthNoise, RememberingNoise, PlaceNoise]),
    branches=st.booleans(),
)
@settings(max_examples=30)
def test_an_honest_target_is_never_called_a_bug(
    seed: int, law: Law, noise: Callable[[Target], Target], branches: bool
) -> None:
    found = compare(noise(toy(near_ties(seed))), law, seed, branches)
    assert found is None or found.verdict is Verdict.TIE


@pytest.mark.parametrize("planted", [StaleCell, OffByOne, LostCell])
@pytest.mark.parametrize("law", [GREEDY, WARM], ids=["greedy", "warm"])
def test_a_planted_defect_is_a_bug(planted: Callable[[Target], Target], law: Law) -> None:
    found = [compare(planted(toy(clear_cut(seed))), law, seed) for seed in range(8)]
    verdicts = [one.verdict for one in found if one is not None]
    assert len(verdicts) >= 6
    assert set(verdicts) == {Verdict.BUG}


@pytest.mark.parametrize("planted", [StaleCell, OffByOne, LostCell])
def test_a_tremble_does_not_excuse_a_planted_defect(planted: Callable[[Target], Target]) -> None:
    """The trembling alone changes few of these answers, the defect most of them."""
    found = [compare(planted(WidthNoise(toy(clear_cut(seed)))), GREEDY, seed) for seed in range(8)]
    assert [one is not None and one.verdict is Verdict.BUG for one in found].count(True) >= 5


def test_without_a_difference_there_is_nothing_to_explain() -> None:
    target = toy(clear_cut(1))
    plain = answer(target, GREEDY, PROMPT, N_OUTPUT)
    drafted = answer(target, GREEDY, PROMPT, N_OUTPUT, (Forger(plain.token_ids, N_VOCAB, 1),))
    assert len(drafted.rounds) < len(plain.rounds)
    assert explain(target, GREEDY, plain, drafted) is None


def test_padded_plain_rounds_are_replayed_at_their_padded_width() -> None:
    found = []
    for seed in range(8):
        target = WidthNoise(toy(near_ties(seed)))
        one_row, padded = (
            answer(target, GREEDY, PROMPT, N_OUTPUT),
            answer(target, GREEDY, PROMPT, N_OUTPUT, widths=(5,)),
        )
        found.append(explain(target, GREEDY, one_row, padded))
    differences = [one for one in found if one is not None]
    assert differences
    assert {(one.verdict, one.drafted_width) for one in differences} == {(Verdict.TIE, 5)}


def canonical_answer(target: Target, forger: Forger) -> Run:
    """Accepted side branches are handed back as pending tokens and read again in the next pass."""
    target.extend(0, np.array(PROMPT[:4], np.int32))
    target.extend(0, np.array(PROMPT[4:8], np.int32))
    target.extend(0, np.array(PROMPT[8:-1], np.int32))
    tokens, pending, rounds = list(PROMPT), np.array(PROMPT[-1:], np.int32), []
    while len(tokens) < len(PROMPT) + N_OUTPUT:
        tree = forger.propose(0, Plan(8, 4))
        n_rows = len(pending) + len(tree)
        rows = target.verify([VerifyRequest(0, pending, tree, canonical=True)], n_rows)[0]
        commit = PathVerifier().walk(tree, rows, GREEDY, tokens, N_OUTPUT, frozenset())
        emitted, path = tuple(commit.tokens.tolist()), tuple(commit.path.tolist())
        shape = (tuple(tree.tokens.tolist()), tuple(tree.parents.tolist()))
        rounds.append(RoundReport(n_rows, 0, len(tree), 0, emitted, (), 0.0, 0.0, 0.0, len(pending), *shape, path))
        tokens += emitted
        forger.observe(0, commit, rows, np.arange(len(tree), dtype=np.int32))
        pending = target.commit(0, commit)
    target.release(0)
    return Run(PROMPT, tuple(rounds), tuple(tokens[len(PROMPT) :]))


def test_rounds_with_several_pending_tokens_are_replayed() -> None:
    found, n_pending = [], []
    for seed in range(8):
        target = RememberingNoise(toy(near_ties(seed)))
        plain = answer(target, GREEDY, PROMPT, N_OUTPUT)
        drafted = canonical_answer(target, Forger(plain.token_ids, N_VOCAB, seed, branches=True))
        n_pending += [one.n_pending for one in drafted.rounds]
        found.append(explain(target, GREEDY, plain, drafted))
    assert max(n_pending) > 1
    differences = [one for one in found if one is not None]
    assert differences
    assert {one.verdict for one in differences} == {Verdict.TIE}


def test_the_first_difference_and_its_round_are_named() -> None:
    found = compare(WidthNoise(toy(near_ties(0))), GREEDY, 0)
    assert found is not None
    target = WidthNoise(toy(near_ties(0)))
    plain = answer(target, GREEDY, PROMPT, N_OUTPUT)
    drafted = answer(target, GREEDY, PROMPT, N_OUTPUT, (Forger(plain.token_ids, N_VOCAB, 0),))
    position = next(i for i, (a, b) in enumerate(zip(plain.token_ids, drafted.token_ids, strict=True)) if a != b)
    emitted_by = [one for one in drafted.rounds for _ in one.tokens]
    assert found.position == position
    assert (found.plain_token, found.drafted_token) == (plain.token_ids[position], drafted.token_ids[position])
    assert found.drafted_width == emitted_by[position].n_rows
    assert 0.0 <= found.outcomes[0].gap < 0.2


def test_an_answer_that_only_ended_earlier_is_a_bug() -> None:
    target = toy(clear_cut(1))
    plain = answer(target, GREEDY, PROMPT, N_OUTPUT)
    short = replace(plain, token_ids=plain.token_ids[:-2], rounds=plain.rounds[:-2])
    found = explain(target, GREEDY, plain, short)
    assert found == Difference(Verdict.BUG, N_OUTPUT - 2, plain.token_ids[-2], None, 1, 1, ())
    assert found.describe(lambda token: b"<%d>" % token).startswith(
        f"bug at token {N_OUTPUT - 2}: '<{plain.token_ids[-2]}>' ({plain.token_ids[-2]}) / the end"
    )


def test_tokens_after_a_stop_string_do_not_count() -> None:
    target = toy(clear_cut(1))
    plain = answer(target, GREEDY, PROMPT, N_OUTPUT)
    stopped = replace(plain, token_ids=plain.token_ids[:20], rounds=plain.rounds[:20])
    in_mid_round = replace(plain, token_ids=plain.token_ids[:20], rounds=plain.rounds[:24])
    assert explain(target, GREEDY, stopped, in_mid_round) is None


def test_a_line_for_people() -> None:
    found = compare(WidthNoise(toy(near_ties(0))), GREEDY, 0)
    assert found is not None
    line = found.describe(lambda token: bytes([97 + token]))
    plain, drafted = found.plain_token, found.drafted_token
    assert plain is not None
    assert drafted is not None
    assert line.startswith(f"tie at token {found.position}: '{chr(97 + plain)}' ({plain}) / '{chr(97 + drafted)}'")
    assert f"rows 1 / {found.drafted_width}" in line
    assert f"strict replay {plain} / {drafted}" in line


def test_answers_to_different_prompts_are_refused() -> None:
    with pytest.raises(ValueError, match="same prompt"):
        explain(toy(clear_cut(1)), GREEDY, Run((1, 2), (), ()), Run((1, 3), (), ()))


def test_the_cache_is_left_empty() -> None:
    target = WidthNoise(toy(near_ties(0)))
    assert compare(target, GREEDY, 0) is not None
    assert all(target.length(sequence) == 0 for sequence in range(-4, 2))
