"""The sparse law is the target's law of a row that is -inf but for the ranked tokens: same draws, same shares."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.draft.sparse import Children, Draw, Float64Array, SparseLaw
from edgespec.spec.law import Law, SamplingSettings
from edgespec.spec.ports import FloatArray, IntArray
from edgespec.spec.tree import DraftMode
from tests.spec import rows
from tests.spec.plain_law import adjusted

N_VOCAB = 12


def never(p: Float64Array) -> int:
    raise AssertionError(f"drawn from {p}")


def lightest(p: Float64Array) -> int:
    return int(p.argmin())


def ranked(full: FloatArray, k: int) -> tuple[IntArray, FloatArray, float]:
    """The k best of a row, as a step returns them, and the log-sum-exp of the whole row."""
    best = np.argsort(-full, kind="stable")[:k].astype(np.int32)
    top = float(full.max())
    return best, full[best], top + float(np.log(np.exp(full.astype(np.float64) - top).sum()))


def scattered(ids: IntArray, logits: FloatArray) -> FloatArray:
    row = np.full(N_VOCAB, -np.inf, np.float32)
    row[ids] = logits
    return row


def children(
    full: FloatArray, k: int, law: Law, history: list[int], mode: DraftMode, n: int = N_VOCAB, draw: Draw = never
) -> Children:
    return SparseLaw(law, mode, draw).children(*ranked(full, k), history, n, 0.0)


finite_rows = st.lists(st.one_of(st.sampled_from([0.0, 1.0, -2.0]), st.floats(-30, 30, width=32)), min_size=N_VOCAB)
full_rows = finite_rows.map(lambda values: np.array(values[:N_VOCAB], np.float32))
histories = st.lists(st.integers(0, N_VOCAB - 1), max_size=8)
some_settings = rows.settings(N_VOCAB)


@given(full_rows, st.integers(1, N_VOCAB), some_settings, histories)
def test_the_first_child_is_what_the_law_itself_would_choose(
    full: FloatArray, k: int, settings: SamplingSettings, history: list[int]
) -> None:
    law = Law(settings)
    ids, logits, _ = ranked(full, k)
    found = children(full, k, law, history, DraftMode.COUPLED)
    if set(ids.tolist()) <= set(settings.banned):
        assert found.tokens == []
    else:
        assert found.tokens[0] == law.choose(scattered(ids, logits), history)


@given(full_rows, st.integers(1, N_VOCAB), some_settings, histories)
def test_a_sampled_child_carries_the_truncated_law_it_was_drawn_from(
    full: FloatArray, k: int, settings: SamplingSettings, history: list[int]
) -> None:
    law = Law(settings)
    ids, logits, _ = ranked(full, k)
    drawn_from: list[list[float]] = []

    def last(p: Float64Array) -> int:
        drawn_from.append(p.tolist())
        return len(p) - 1

    found = children(full, k, law, history, DraftMode.SAMPLED, draw=last)
    if set(ids.tolist()) <= set(settings.banned):
        assert (found.tokens, found.law, drawn_from) == ([], None, [])
        return
    expected = law.probabilities(scattered(ids, logits), history)
    assert found.law is not None
    np.testing.assert_array_equal(found.law.ids, expected.ids)
    np.testing.assert_array_equal(found.law.p, expected.p)
    assert found.law.ids.dtype == np.int32
    assert drawn_from == [expected.p.tolist()]
    assert found.tokens == [int(expected.ids[-1])]


@given(full_rows, st.integers(1, N_VOCAB), some_settings, histories, st.integers(1, 5))
def test_further_children_follow_by_score_and_claims_descend(
    full: FloatArray, k: int, settings: SamplingSettings, history: list[int], n: int
) -> None:
    law = Law(replace(settings, temperature=settings.temperature or 1.0, banned=()))
    ids, logits, _ = ranked(full, k)
    sparse = law.probabilities(scattered(ids, logits), history)
    found = children(full, k, law, history, DraftMode.COUPLED, n)
    with np.errstate(divide="ignore"):  # a probability may underflow
        scores = np.log(sparse.p) + law.noise(len(history), sparse.ids)
    order = scores[[sparse.ids.tolist().index(token) for token in found.tokens]]
    assert len(found.tokens) == len(set(found.tokens)) == min(n, len(sparse.ids))
    np.testing.assert_allclose(order, np.sort(scores)[::-1][: len(order)], atol=1e-9)
    assert found.claims == sorted(found.claims, reverse=True)
    assert 0.0 <= sum(found.claims) <= 1.0 + 1e-9


@given(full_rows, st.integers(1, N_VOCAB), some_settings, histories)
def test_a_claim_at_temperature_0_is_the_probability_under_the_whole_row(
    full: FloatArray, k: int, settings: SamplingSettings, history: list[int]
) -> None:
    """Bias and penalties included, where they concern ranked tokens only."""
    ids = ranked(full, k)[0].tolist()
    bias = tuple(pair for pair in settings.logit_bias if pair[0] in ids)
    history = [token for token in history if token in ids]
    plain = replace(settings, temperature=0.0, logit_bias=bias, banned=())
    found = children(full, k, Law(plain), history, DraftMode.COUPLED)
    row = np.array(adjusted(full, plain, history))
    p = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
    assert sorted(found.tokens) == sorted(ids)
    np.testing.assert_allclose(found.claims, p[found.tokens], atol=1e-6)
    assert [row[token] for token in found.tokens] == sorted(row[ids].tolist(), reverse=True)


def test_claims_by_hand() -> None:
    full = np.log(np.array([0.4, 0.3, 0.2, *[0.1 / 9] * 9])).astype(np.float32)
    point = children(full, 3, Law(SamplingSettings(temperature=1.0)), [], DraftMode.POINT)
    assert point.tokens == [0, 1, 2]
    assert point.claims == pytest.approx([0.4, 0.3, 0.2], abs=1e-6)
    # Truncation that bites among the ranked leaves nothing outside of them.
    cut = children(full, 3, Law(SamplingSettings(temperature=1.0, top_k=2)), [], DraftMode.POINT)
    assert cut.claims == pytest.approx([4 / 7, 3 / 7], abs=1e-6)
    sampled = children(full, 3, Law(SamplingSettings(temperature=2.0)), [], DraftMode.SAMPLED, draw=lightest)
    assert sampled.tokens == [2]
    assert sampled.claims == pytest.approx([0.4], abs=1e-6)
    floored = SparseLaw(Law(SamplingSettings(temperature=1.0)), DraftMode.POINT, never)
    assert floored.children(*ranked(full, 3), [], 9, 0.25).tokens == [0, 1]


def test_a_sampled_token_is_not_drawn_where_the_claim_is_too_low() -> None:
    full = np.zeros(N_VOCAB, np.float32)
    law = SparseLaw(Law(SamplingSettings(temperature=1.0)), DraftMode.SAMPLED, never)
    assert law.children(*ranked(full, 4), [], 1, 0.5) == Children([], [])


def test_there_is_no_noise_to_share_at_temperature_0() -> None:
    modes = {mode: SparseLaw(Law(SamplingSettings()), mode, never).mode for mode in DraftMode}
    assert modes == {**{mode: mode for mode in DraftMode}, DraftMode.COUPLED: DraftMode.POINT}


def test_a_bias_that_sinks_all_ranked_tokens_is_no_error() -> None:
    sunk = SamplingSettings(temperature=0.5, logit_bias=tuple((token, -1000.0) for token in range(N_VOCAB)))
    found = children(np.zeros(N_VOCAB, np.float32), N_VOCAB, Law(sunk), [], DraftMode.COUPLED)
    assert len(found.tokens) == N_VOCAB
    few = children(np.zeros(N_VOCAB, np.float32), 2, Law(sunk), [], DraftMode.COUPLED)
    assert max(few.claims) < 1e-9
