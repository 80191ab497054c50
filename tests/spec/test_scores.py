"""Scores against a plain twin, and those of drafted answers against those of plain decoding, bit for bit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgespec.backend.toy import ToyModel, ToyRows, ToyTarget
from edgespec.errors import EngineFailure
from edgespec.events import TokenScore
from edgespec.spec.policy import Policy
from edgespec.spec.ports import Commit, FloatArray
from edgespec.spec.scores import Scorer, leaders, score
from tests.spec import rows
from tests.spec.plain_decoding import Asked, PaddedReader, Plain, plain_exact, plain_fast
from tests.spec.test_round import (
    BATCHES,
    WIDTH_CLASSES,
    WatchedTarget,
    begin,
    check_end,
    drafters,
    limits,
    models,
    play,
    policies,
    requests,
)

ROWS = st.one_of(rows.small_rows(), rows.large_rows())
N_TOP = st.sampled_from([0, 1, 2, 5, 20])
# That the tokens agree is the round's own test, with many more.
DECODED = settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])


def ranked(row: FloatArray) -> list[int]:
    """Every token that can come, best first, by a whole sort."""
    possible = [token for token in range(len(row)) if row[token] > -np.inf]
    return sorted(possible, key=lambda token: (-float(row[token]), token))


def log_softmax(row: FloatArray) -> list[float]:
    values = [float(value) for value in row]
    top = max(values)
    log_total = math.log(math.fsum(math.exp(value - top) for value in values))
    return [value - top - log_total for value in values]


@given(ROWS, N_TOP, st.data())
def test_a_score_is_the_logarithm_of_the_softmax(row: FloatArray, n_top: int, data: st.DataObject) -> None:
    expected, order = log_softmax(row), ranked(row)
    token = data.draw(st.sampled_from(order))
    got = score(row, token, n_top)
    assert got.token_id == token
    assert got.logprob == pytest.approx(expected[token], rel=1e-12, abs=1e-12)
    assert got.logprob <= 0.0
    assert got.top_ids == tuple(order[:n_top])
    assert got.top_logprobs == pytest.approx([expected[one] for one in order[:n_top]], rel=1e-12, abs=1e-12)
    for one, logprob in zip(got.top_ids, got.top_logprobs, strict=True):
        assert one != token or logprob == got.logprob


@given(st.integers(1, 30), st.integers(1, 400), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_the_leaders_are_the_first_of_a_whole_sort_also_among_ties(n: int, size: int, n_levels: int, seed: int) -> None:
    row = np.random.default_rng(seed).integers(0, n_levels, size).astype(np.float32)
    row[row == 2] = -np.inf
    assert leaders(row, n).tolist() == ranked(row)[:n]


@given(rows.large_rows(), st.integers(1, 9), st.integers(2, 3))
def test_where_a_row_lies_in_memory_makes_no_difference(row: FloatArray, offset: int, stride: int) -> None:
    room = np.zeros(offset + stride * len(row), np.float32)
    elsewhere, apart = room[offset : offset + len(row)], room[offset::stride][: len(row)]
    token = int(row.argmax())
    expected = score(row, token, 5)
    for place in (elsewhere, apart):
        place[:] = row
        assert score(place, token, 5) == expected


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_without_a_finite_maximum_are_refused(bad: float) -> None:
    with pytest.raises(EngineFailure, match="maximum of the logits"):
        score(np.array([0.0, bad, 1.0], np.float32), 0, 2)
    with pytest.raises(EngineFailure):
        score(np.full(3, -np.inf, np.float32), 0, 0)


def test_a_drafted_token_is_scored_by_the_row_of_its_parent() -> None:
    model = ToyModel(n_vocab=5)
    table = [model.logits([token]) for token in range(4)]
    scorer = Scorer(2)
    scorer.add(Commit(np.array([0, 2], np.int32), np.array([3, 1, 4], np.int32)), ToyRows(ToyTarget(model), table))
    assert scorer.scores == [score(table[0], 3, 2), score(table[1], 1, 2), score(table[3], 4, 2)]


def test_a_round_is_scored_whole_or_not_at_all() -> None:
    table = [np.zeros(4, np.float32), np.full(4, np.nan, np.float32)]
    scorer = Scorer(0)
    with pytest.raises(EngineFailure):
        scorer.add(
            Commit(np.array([0], np.int32), np.array([3, 1], np.int32)), ToyRows(ToyTarget(ToyModel(n_vocab=4)), table)
        )
    assert scorer.scores == []


# -- drafted == plain ---------------------------------------------------------------------------------------------


def plain_scores(
    asked: Asked, plain: Plain, logits_after: Callable[[list[int]], FloatArray], n_top: int
) -> list[TokenScore]:
    """Token by token, each from the logits of the text before it."""
    text, scores = list(asked.prompt), []
    for token in plain.output:
        scores.append(score(logits_after(text), token, n_top))
        text.append(token)
    return scores


def agree(scorer: Scorer, tokens: Sequence[int], plain: list[TokenScore]) -> None:
    """What was accepted in a round that failed is lost with it, as its scores are."""
    assert [one.token_id for one in scorer.scores] == list(tokens)
    assert scorer.scores == plain[: len(tokens)]


@DECODED
@given(st.data(), models(), policies())
def test_the_scores_of_a_batch_are_those_of_plain_decoding(
    data: st.DataObject, model: ToyModel, policy: Policy
) -> None:
    batch = data.draw(BATCHES)
    longest = max(len(asked.prompt) + asked.max_tokens for asked in batch)
    target = WatchedTarget(model, data.draw(limits(longest)))
    scorers = [Scorer(data.draw(N_TOP)) for _ in batch]
    running = []
    for sequence, asked in enumerate(batch):
        plain = plain_fast(model, asked)
        running.append(begin(target, sequence, asked, plain, data.draw(drafters(plain))))
        running[-1].state.scorer = scorers[sequence]
    play(target, policy, running)
    for one, scorer in zip(running, scorers, strict=True):
        agree(
            scorer,
            one.state.tokens[one.state.n_prompt :],
            plain_scores(one.asked, one.plain, model.logits, scorer.n_top),
        )
        check_end(target, one)


@DECODED
@given(st.data(), models(), policies(), st.sampled_from(WIDTH_CLASSES), N_TOP)
def test_the_scores_of_an_exact_answer_are_bitwise_those_of_plain_decoding(
    data: st.DataObject, model: ToyModel, policy: Policy, widths: tuple[int, ...], n_top: int
) -> None:
    asked = data.draw(requests(widths))
    capabilities = data.draw(limits(len(asked.prompt) + asked.max_tokens, widths))
    plain = plain_exact(model, capabilities, asked)
    target = WatchedTarget(model, capabilities, rounding=True)
    one = begin(target, 0, asked, plain, data.draw(drafters(plain)))
    one.state.scorer = scorer = Scorer(n_top)
    play(target, policy, [one])
    reader = PaddedReader(ToyTarget(model, capabilities, rounding=True), asked.prompt, min(widths))
    expected = plain_scores(asked, plain, reader.logits, n_top)
    agree(scorer, one.state.tokens[one.state.n_prompt :], expected)
    check_end(target, one)
