from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgespec.spec import noise
from edgespec.spec.law import SamplingSettings
from edgespec.spec.survivors import race, survivors
from tests.spec.plain_law import chain, reference_choice
from tests.spec.rows import FloatArray, Kind, large_row, large_rows, small_rows

KINDS: tuple[Kind, ...] = ("zipf", "gauss", "levels", "flat", "peaked", "holes", "huge")


def plain_survivors(row: FloatArray, temperature: float, top_k: int, top_p: float, min_p: float) -> list[int]:
    steps = SamplingSettings(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    return sorted(chain(row.tolist(), steps)[0])


def fast(row: FloatArray, temperature: float, top_k: int, top_p: float, min_p: float) -> npt.NDArray[np.intp]:
    top = float(row.max())
    ids, scaled = survivors(row, top, temperature, top_k, top_p, min_p)
    assert scaled == pytest.approx((row[ids].astype(np.float64) - top) / temperature, rel=1e-12)
    return ids


@given(small_rows(), st.sampled_from([0.3, 1.0]), st.integers(0, 12), st.floats(0.0, 0.999), st.floats(0.0, 1.0))
def test_small_rows(row: FloatArray, temperature: float, top_k: int, top_p: float, min_p: float) -> None:
    expected = plain_survivors(row, temperature, top_k, top_p, min_p)
    assert fast(row, temperature, top_k, top_p, min_p).tolist() == expected


@settings(max_examples=60)
@given(large_rows(), st.sampled_from([0.1, 0.8, 2.0]), st.sampled_from([0, 0, 1, 50, 1500]), st.data())
def test_large_rows(row: FloatArray, temperature: float, top_k: int, data: st.DataObject) -> None:
    top_p = data.draw(st.one_of(st.sampled_from([0.5, 0.95, 0.9999]), st.floats(0.0, 0.999)))
    min_p = data.draw(st.sampled_from([0.0, 0.0, 0.02, 0.5]))
    expected = plain_survivors(row, temperature, top_k, top_p, min_p)
    assert fast(row, temperature, top_k, top_p, min_p).tolist() == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("top_p", [0.0, 0.3, 0.5, 0.95, 0.999999, 1.0 - 2.0**-53])
def test_every_shape_at_every_top_p(kind: Kind, top_p: float) -> None:
    row = large_row(kind, 3000, seed=3)
    assert fast(row, 0.8, 0, top_p, 0.0).tolist() == plain_survivors(row, 0.8, 0, top_p, 0.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("top_k", [1, 7, 100, 374, 375, 376, 2999, 3000, 5000])
def test_every_shape_at_every_top_k(kind: Kind, top_k: int) -> None:
    row = large_row(kind, 3000, seed=4)
    assert fast(row, 0.8, top_k, 1.0, 0.0).tolist() == plain_survivors(row, 0.8, top_k, 1.0, 0.0)


def test_exact_borders_among_ties_go_to_the_lower_ids() -> None:
    # 2048 equal tokens: every weight and every sum is exact, so top-p 1/4 and 1/2 end exactly between two tokens.
    row = np.zeros(2048, dtype=np.float32)
    assert fast(row, 1.0, 0, 0.25, 0.0).tolist() == list(range(512))
    assert fast(row, 1.0, 1024, 0.5, 0.0).tolist() == list(range(512))
    row[::2] = -np.inf
    assert fast(row, 1.0, 0, 0.5, 0.0).tolist() == list(range(1, 1024, 2))


def test_steps_work_on_what_the_one_before_left() -> None:
    row = np.log(np.array([0.4, 0.3, 0.2, 0.1], dtype=np.float32))
    # After top-k 2 the law is (4/7, 3/7), so the leader alone holds the top half; before it, it did not.
    assert fast(row, 1.0, 0, 0.5, 0.0).tolist() == [0, 1]
    assert fast(row, 1.0, 2, 0.5, 0.0).tolist() == [0]
    assert fast(row, 1.0, 0, 1.0, 0.6).tolist() == [0, 1]


@settings(max_examples=60)
@given(st.one_of(small_rows(), large_rows()), st.sampled_from([0.01, 0.7, 1.0, 30.0]), st.integers(0, 2**64 - 1))
def test_the_race_finds_the_winner(row: FloatArray, temperature: float, seed: int) -> None:
    settings_ = SamplingSettings(temperature=temperature, seed=seed)
    assert race(row, float(row.max()), temperature, noise.key(seed, 0)) == reference_choice(row, settings_, [])


def test_the_race_is_often_won_from_behind() -> None:
    # 40000 tokens (several blocks) 6 nats behind the leader hold 99 % of the law.
    row = np.full(40_000, -6.0, dtype=np.float32)
    row[123] = 0.0
    winners = [race(row, 0.0, 1.0, noise.key(1, position)) for position in range(200)]
    assert sum(winner == 123 for winner in winners) <= 10
    settings_ = SamplingSettings(temperature=1.0, seed=1)
    for position in (0, 50, 199):
        assert winners[position] == reference_choice(row, settings_, [0] * position)
    assert len({winner // 16384 for winner in winners}) == 3


@pytest.mark.parametrize("behind", [3.99, 4.01, 4.5, 9.0])
def test_the_race_weighs_every_distance_rightly(behind: float) -> None:
    row = np.full(5000, -behind, dtype=np.float32)
    row[7] = 0.0
    for position in range(300):
        key = noise.key(0, position)
        assert race(row, 0.0, 1.0, key) == (row + noise.gumbel(key, np.arange(5000))).argmax()


def forge(monkeypatch: pytest.MonkeyPatch, lucky: int = -1) -> None:
    """The same noise for every token, but the most there is for one."""

    def hash64(_key: int, tokens: npt.NDArray[np.intp]) -> npt.NDArray[np.uint64]:
        hashes = np.full(len(tokens), 2**63, dtype=np.uint64)
        hashes[tokens == lucky] = 2**64 - 1
        return hashes

    monkeypatch.setattr(noise, "hash64", hash64)


def test_the_race_can_be_won_from_as_far_as_noise_reaches(monkeypatch: pytest.MonkeyPatch) -> None:
    forge(monkeypatch, lucky=20_000)
    reach = noise.GUMBEL_MAX + np.log(np.log(2.0))  # the others have the noise of the uniform number 1/2
    row = np.full(40_000, -np.inf, dtype=np.float32)
    row[5] = 0.0
    row[20_000] = -(reach - 0.01)
    assert race(row, 0.0, 1.0, 0) == 20_000
    row[20_000] = -(reach + 0.01)
    assert race(row, 0.0, 1.0, 0) == 5


def test_equal_scores_go_to_the_lower_id(monkeypatch: pytest.MonkeyPatch) -> None:
    forge(monkeypatch)
    row = np.zeros(40_000, dtype=np.float32)
    assert race(row, 0.0, 1.0, 0) == 0
    row[0] = -np.inf
    assert race(row, 0.0, 1.0, 0) == 1


def test_the_far_tail_counts_in_top_p() -> None:
    # 4000 tokens too far behind to be looked at singly weigh 0.013 together: with them the leader just misses 90 %.
    row = np.full(4000, -12.62, dtype=np.float32)
    row[:2] = 0.0, np.log(0.105)
    assert fast(row, 1.0, 0, 0.9, 0.0).tolist() == plain_survivors(row, 1.0, 0, 0.9, 0.0) == [0, 1]
    row[2:] = -30.0
    assert fast(row, 1.0, 0, 0.9, 0.0).tolist() == [0]
