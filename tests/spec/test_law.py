from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.errors import BadInput, EngineFailure
from edgespec.spec import noise
from edgespec.spec.allowed import AllowedTokens, allow
from edgespec.spec.law import Law, SamplingSettings
from tests.spec import rows
from tests.spec.plain_law import reference_choice, reference_probabilities
from tests.spec.rows import FloatArray

HISTORY = st.lists(st.integers(0, 9), max_size=80)


def dense(law: Law, row: FloatArray, history: list[int]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    sparse = law.probabilities(row, history)
    assert sparse.ids.dtype == np.int32
    assert sparse.p.dtype == np.float64
    assert (np.diff(sparse.ids) > 0).all()
    assert math.isclose(float(sparse.p.sum()), 1.0, abs_tol=1e-12)
    p = np.zeros(len(row))
    p[sparse.ids] = sparse.p
    return p


def agrees_with_the_plain_twin(row: FloatArray, chain: SamplingSettings, history: list[int]) -> None:
    law, before = Law(chain), row.copy()
    assert np.abs(dense(law, row, history) - reference_probabilities(row, chain, history)).max() <= 1e-12
    assert law.choose(row, history) == reference_choice(row, chain, history)
    assert row.tobytes() == before.tobytes()


@settings(max_examples=250)
@given(st.data(), HISTORY)
def test_small_rows_agree_with_the_plain_twin(data: st.DataObject, history: list[int]) -> None:
    row = np.append(data.draw(rows.small_rows()), np.float32(data.draw(st.sampled_from([0.0, 2.0])))).astype(np.float32)
    # The last token is never banned, so something is always left.
    chain = data.draw(rows.settings(max(1, len(row) - 1)) if len(row) > 1 else st.just(SamplingSettings()))
    agrees_with_the_plain_twin(row, chain, [token % len(row) for token in history])


@settings(max_examples=80)
@given(rows.large_rows(), rows.settings(2), HISTORY)
def test_large_rows_agree_with_the_plain_twin(row: FloatArray, chain: SamplingSettings, history: list[int]) -> None:
    agrees_with_the_plain_twin(np.concatenate([np.zeros(2, np.float32), row]), chain, history)


@settings(max_examples=5)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.6, 1.0]))
def test_a_whole_vocabulary_agrees_with_the_plain_twin(seed: int, temperature: float) -> None:
    row = rows.large_row("zipf", 30_000, seed)
    agrees_with_the_plain_twin(row, SamplingSettings(temperature=temperature, seed=seed, top_p=0.9), [1, 2, 3])


def test_greedy_takes_the_lowest_of_equals_and_is_one_hot() -> None:
    law = Law(SamplingSettings())
    row = np.array([0.0, 3.0, 3.0, -np.inf], dtype=np.float32)
    assert law.choose(row, [7]) == 1
    assert dense(law, row, [7]).tolist() == [0.0, 1.0, 0.0, 0.0]


def test_bias_then_bans_then_penalties() -> None:
    row = np.zeros(4, dtype=np.float32)
    law = Law(SamplingSettings(temperature=1.0, logit_bias=((0, 2.0), (1, 5.0)), banned=(1,), repeat_penalty=2.0))
    p = dense(law, row, [0, 0])
    # Token 0 gets +2 and is then halved to 1; token 1 stays banned whatever its bias.
    assert p == pytest.approx(np.array([math.e, 0.0, 1.0, 1.0]) / (math.e + 2.0), abs=1e-12)


def test_each_penalty_by_hand() -> None:
    row = np.array([1.0, -1.0, 0.0], dtype=np.float32)
    history = [0, 1, 0]

    def logits(chain: SamplingSettings) -> list[float]:
        p = Law(chain).probabilities(row, history).p
        return [math.log(x / p[2]) for x in p.tolist()]

    repeat = logits(SamplingSettings(temperature=1.0, repeat_penalty=2.0))
    frequency = logits(SamplingSettings(temperature=1.0, frequency_penalty=0.25))
    presence = logits(SamplingSettings(temperature=1.0, presence_penalty=0.25))
    assert repeat == pytest.approx([0.5, -2.0, 0.0], abs=1e-6)
    assert frequency == pytest.approx([0.5, -1.25, 0.0], abs=1e-6)
    assert presence == pytest.approx([0.75, -1.25, 0.0], abs=1e-6)


def test_penalties_see_the_window_and_nothing_else() -> None:
    row = np.array([1.0, 0.9, 0.0], dtype=np.float32)
    law = Law(SamplingSettings(presence_penalty=0.5, penalty_last_n=2))
    assert law.choose(row, [0, 2, 2]) == 0
    assert law.choose(row, [2, 0, 2]) == 1
    assert Law(SamplingSettings(presence_penalty=0.5, penalty_last_n=0)).choose(row, [0, 0]) == 0


def test_the_choice_depends_on_seed_and_position_alone() -> None:
    row = np.zeros(50, dtype=np.float32)
    chain = SamplingSettings(temperature=1.0, seed=4)
    draws = [Law(chain).choose(row, [3] * n) for n in range(40)]
    assert draws == [Law(chain).choose(row, [8] * n) for n in range(40)]
    assert draws != [Law(SamplingSettings(temperature=1.0, seed=5)).choose(row, [3] * n) for n in range(40)]
    assert len(set(draws)) > 15


def test_the_noise_is_open_to_coupled_drafters() -> None:
    row = rows.large_row("gauss", 1000, seed=0)
    law = Law(SamplingSettings(temperature=1.0, top_k=20, seed=9))
    sparse = law.probabilities(row, [1, 2])
    coupled = sparse.ids[(np.log(sparse.p) + law.noise(2, sparse.ids)).argmax()]
    assert law.choose(row, [1, 2]) == coupled
    assert law.noise(2, sparse.ids).tolist() == noise.gumbel(noise.key(9, 2), sparse.ids).tolist()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("row", [[-np.inf, -np.inf], [0.0, np.nan], [np.nan, np.nan], [np.inf, 0.0]])
def test_logits_without_a_finite_maximum_are_an_engine_failure(row: list[float], temperature: float) -> None:
    law = Law(SamplingSettings(temperature=temperature))
    for method in (law.choose, law.probabilities):
        with pytest.raises(EngineFailure, match="position 3"):
            method(np.array(row, dtype=np.float32), [0, 1, 0])


def test_banning_everything_is_an_engine_failure_and_banning_nan_helps() -> None:
    with pytest.raises(EngineFailure):
        Law(SamplingSettings(banned=(0, 1))).choose(np.zeros(2, dtype=np.float32), [])
    assert Law(SamplingSettings(banned=(1,))).choose(np.array([0.0, np.nan], dtype=np.float32), []) == 0


@pytest.mark.parametrize("chain", [SamplingSettings(banned=(2,)), SamplingSettings(logit_bias=((2, 1.0),))])
def test_a_token_outside_the_vocabulary_is_bad_input(chain: SamplingSettings) -> None:
    with pytest.raises(BadInput, match=r"token 2 .* ends at 1"):
        Law(chain).choose(np.zeros(2, dtype=np.float32), [])


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("temperature", [-0.1, 1e-7, 101.0, math.nan]),
        ("top_k", [-1]),
        ("top_p", [-0.1, 1.1, math.nan]),
        ("min_p", [-0.1, 1.1]),
        ("repeat_penalty", [0.0, 101.0]),
        ("frequency_penalty", [-101.0, math.inf]),
        ("presence_penalty", [-101.0, math.nan]),
        ("penalty_last_n", [-1]),
        ("seed", [-1, 2**64]),
        ("logit_bias", [((3, math.inf),), ((3, 1.0), (3, 2.0)), ((-1, 1.0),)]),
        ("banned", [(-1,)]),
    ],
)
def test_settings_out_of_range_are_named(name: str, values: list[object]) -> None:
    for value in values:
        with pytest.raises(BadInput) as caught:
            SamplingSettings(**{name: value})  # type: ignore[arg-type]
        assert name in caught.value.what


def test_settings_at_their_limits() -> None:
    for temperature in (0.0, 1e-6, 100.0):
        SamplingSettings(temperature=temperature, top_p=0.0, min_p=1.0, seed=2**64 - 1)


def agrees_with_bans(row: FloatArray, chain: SamplingSettings, history: list[int], allowed: AllowedTokens) -> None:
    """A mask is the same as a ban of all other tokens."""
    asked: list[Sequence[int]] = []

    def mask(text: Sequence[int]) -> AllowedTokens:
        asked.append(list(text))
        return allowed

    law, before = Law(chain, mask), row.copy()
    others = np.flatnonzero(~allowed.flags(len(row))).tolist()
    twin = replace(chain, banned=(*chain.banned, *others))
    assert law.choose(row, history) == reference_choice(row, twin, history) == Law(twin).choose(row, history)
    assert np.abs(dense(law, row, history) - reference_probabilities(row, twin, history)).max() <= 1e-12
    assert row.tobytes() == before.tobytes()
    assert asked == [history, history]


@settings(max_examples=250)
@given(st.data(), HISTORY)
def test_a_mask_of_a_small_row_bans_the_rest(data: st.DataObject, history: list[int]) -> None:
    row = np.append(data.draw(rows.small_rows()), np.float32(data.draw(st.sampled_from([0.0, 2.0])))).astype(np.float32)
    chain = data.draw(rows.settings(max(1, len(row) - 1)) if len(row) > 1 else st.just(SamplingSettings()))
    # The last token is neither banned nor masked, so something is always left.
    tokens = data.draw(st.sets(st.integers(0, len(row) - 1))) | {len(row) - 1}
    agrees_with_bans(row, chain, [token % len(row) for token in history], allow(sorted(tokens), len(row)))


@settings(max_examples=100)
@given(rows.large_rows(), rows.settings(2), HISTORY, st.sampled_from([0.001, 0.1, 0.5, 0.9, 1.0]), st.integers(0, 99))
def test_a_mask_of_a_large_row_bans_the_rest(
    row: FloatArray, chain: SamplingSettings, history: list[int], share: float, seed: int
) -> None:
    flags = np.random.default_rng(seed).random(len(row)) < share
    flags[int(row[2:].argmax()) + 2] = True  # neither banned nor -inf
    agrees_with_bans(row, chain, history, allow(np.flatnonzero(flags), len(row)))


@pytest.mark.parametrize("n_vocab", [4, 3000])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_mask_that_leaves_nothing_is_an_error(n_vocab: int, temperature: float) -> None:
    row = np.zeros(n_vocab, np.float32)
    row[:2] = -np.inf
    chain = SamplingSettings(temperature=temperature, banned=(2,))
    for tokens in ([], [0, 1, 2]):
        law = Law(chain, lambda _text, tokens=tokens: allow(tokens, n_vocab))  # type: ignore[misc]
        with pytest.raises(EngineFailure, match="at position 5"):
            law.choose(row, [3] * 5)
        with pytest.raises(EngineFailure):
            law.probabilities(row, [])


def test_what_is_not_allowed_may_be_no_number() -> None:
    row = np.array([np.nan, 1.0, 2.0, np.inf], np.float32)
    for temperature in (0.0, 1.0):
        law = Law(SamplingSettings(temperature=temperature), lambda _text: allow([1], 4))
        assert law.choose(row, []) == 1
    with pytest.raises(EngineFailure):
        Law(SamplingSettings(), lambda _text: allow([0, 1], 4)).choose(row, [])
