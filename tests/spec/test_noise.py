from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.spec import noise
from tests.laws.gtest import deviates

WORD = st.integers(0, 2**64 - 1)
GAMMA = 0x9E3779B97F4A7C15


def plain_hash(key: int, token: int) -> int:
    return noise.mix((key + (token + 1) * GAMMA) % 2**64)


def test_published_splitmix64_outputs() -> None:
    zero = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC, 0x1B39896A51A8749B]
    other = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    assert noise.hash64(0, np.arange(5)).tolist() == zero
    assert noise.hash64(1234567, np.arange(5)).tolist() == other


@given(WORD, st.lists(st.integers(0, 2**31 - 1), max_size=20))
def test_arrays_agree_with_plain_integers(key: int, tokens: list[int]) -> None:
    for dtype in (np.int32, np.int64):
        assert noise.hash64(key, np.array(tokens, dtype=dtype)).tolist() == [plain_hash(key, t) for t in tokens]


@given(WORD, st.integers(0, 2**31 - 1))
def test_a_token_has_its_noise_in_any_company(key: int, token: int) -> None:
    alone = noise.gumbel(key, np.array([token]))[0]
    crowd = np.append(np.arange(1000), token)
    assert noise.gumbel(key, crowd)[-1] == alone


def test_tokens_are_left_alone() -> None:
    tokens = np.arange(10, dtype=np.int32)
    noise.gumbel(7, tokens)
    assert tokens.tolist() == list(range(10))


@given(WORD, st.integers(0, 2**40))
def test_a_key_is_two_outputs_deep(seed: int, position: int) -> None:
    assert noise.key(seed, position) == plain_hash(plain_hash(seed, 0), position)


def test_keys_differ_and_wrap() -> None:
    keys = {noise.key(seed, position) for seed in range(100) for position in range(100)}
    assert len(keys) == 100 * 100
    assert noise.key(2**64 + 5, 3) == noise.key(5, 3)
    assert 0 <= noise.key(2**64 - 1, 2**40) < 2**64


def test_extreme_hashes_give_the_documented_support() -> None:
    ends = noise.uniform_of(np.array([0, 2**64 - 1], dtype=np.uint64))
    assert ends.tolist() == [noise.UNIFORM_MIN, noise.UNIFORM_MAX]
    assert 0.0 < noise.UNIFORM_MIN < noise.UNIFORM_MAX < 1.0
    assert noise.gumbel_of(ends) == pytest.approx([noise.GUMBEL_MIN, noise.GUMBEL_MAX], abs=1e-12)
    assert math.isclose(noise.GUMBEL_MAX, 53 * math.log(2.0))


@given(WORD)
def test_noise_stays_in_its_support(key: int) -> None:
    tokens = np.arange(200)
    u, g = noise.uniform(key, tokens), noise.gumbel(key, tokens)
    assert u.dtype == g.dtype == np.float64
    assert (u >= noise.UNIFORM_MIN).all()
    assert (u <= noise.UNIFORM_MAX).all()
    assert g == pytest.approx([-math.log(-math.log(x)) for x in u.tolist()], abs=1e-12)


@given(st.floats(-3.7, 36.9))
def test_no_hash_below_the_floor_has_more_noise(gumbel: float) -> None:
    floor = int(noise.hash_floor(gumbel))
    around = np.array([max(0, floor - 1 - (k << 11)) for k in range(64)], dtype=np.uint64)
    assert floor == 0 or (noise.gumbel_of(noise.uniform_of(around)) <= gumbel).all()


@given(st.floats(-3.0, 36.0))
def test_the_floor_is_close(gumbel: float) -> None:
    above = np.array([min(int(noise.hash_floor(gumbel)) + (16 << 11), 2**64 - 1)], dtype=np.uint64)
    assert noise.gumbel_of(noise.uniform_of(above))[0] >= gumbel - 1e-9


def test_uniform_over_tokens_positions_and_seeds() -> None:
    n = 40_000
    streams = {
        "tokens": noise.uniform(noise.key(1, 2), np.arange(n)),
        "positions": np.array([noise.uniform(noise.key(1, i), np.array([3]))[0] for i in range(n // 4)]),
        "seeds": np.array([noise.uniform(noise.key(i, 2), np.array([3]))[0] for i in range(n // 4)]),
    }
    for name, u in streams.items():
        counts = np.bincount((u * 64).astype(np.int64), minlength=64)
        assert abs(deviates(counts, np.full(64, 1 / 64))) < 4.5, name


def test_low_bits_are_uniform_too() -> None:
    low = (noise.hash64(noise.key(5, 6), np.arange(40_000)) >> np.uint64(11)) % np.uint64(64)
    assert abs(deviates(np.bincount(low.astype(np.int64), minlength=64), np.full(64, 1 / 64))) < 4.5


@pytest.mark.parametrize(("seed", "position", "shift"), [(1, 0, 0), (0, 1, 0), (1, -1, 0), (0, 0, 1), (0, 1, 1)])
def test_neighbours_are_independent(seed: int, position: int, shift: int) -> None:
    tokens = np.arange(40_000)
    one = noise.uniform(noise.key(10, 10), tokens)
    two = noise.uniform(noise.key(10 + seed, 10 + position), tokens + shift)
    pairs = (one * 8).astype(np.int64) * 8 + (two * 8).astype(np.int64)
    assert abs(deviates(np.bincount(pairs, minlength=64), np.full(64, 1 / 64))) < 4.5
    assert abs(float(np.corrcoef(one, two)[0, 1])) < 4.5 / math.sqrt(len(tokens))
