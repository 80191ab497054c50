"""Strategies for rows of logits and for sampling settings, with the corners that matter: ties, -inf, one-hot."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from edgespec.spec.law import SamplingSettings

FloatArray = npt.NDArray[np.float32]
Kind = Literal["zipf", "gauss", "levels", "flat", "peaked", "holes", "huge"]


def large_row(kind: Kind, n_vocab: int, seed: int) -> FloatArray:
    """A row as language models make them, or as they do in the worst case."""
    rng = np.random.default_rng(seed)
    bulk = rng.normal(size=n_vocab) * 2.0
    if kind == "zipf":
        bulk = -1.3 * np.log(1.0 + rng.permutation(n_vocab)) + 0.1 * bulk
    elif kind == "levels":
        bulk = np.round(bulk)
    elif kind == "flat":
        bulk[:] = 1.5
    elif kind == "peaked":
        bulk[rng.integers(n_vocab, size=8)] += np.linspace(9.0, 14.0, 8)
    elif kind == "holes":
        bulk[rng.random(n_vocab) < 0.9] = -np.inf
        bulk[rng.integers(n_vocab)] = 0.0
    elif kind == "huge":
        bulk *= 1e30
    return bulk.astype(np.float32)


def small_rows(max_vocab: int = 10) -> st.SearchStrategy[FloatArray]:
    level = st.sampled_from([-np.inf, -4.0, -1.0, 0.0, 0.0, 0.5, 1.0, 2.0])
    value = st.floats(-30.0, 30.0, width=32)
    rows = st.lists(st.one_of(level, value), min_size=1, max_size=max_vocab)
    return rows.map(lambda row: np.array(row, dtype=np.float32)).filter(lambda row: bool((row > -np.inf).any()))


def large_rows() -> st.SearchStrategy[FloatArray]:
    return st.builds(large_row, st.sampled_from(get_args(Kind)), st.integers(1025, 4000), st.integers(0, 2**32 - 1))


def settings(n_ids: int) -> st.SearchStrategy[SamplingSettings]:
    """Settings whose bias and bans stay below `n_ids`."""
    token = st.integers(0, n_ids - 1)
    return st.builds(
        SamplingSettings,
        temperature=st.sampled_from([0.0, 0.05, 0.7, 1.0, 1.0, 3.0]),
        top_k=st.sampled_from([0, 0, 1, 2, 3, 40, 2000]),
        top_p=st.one_of(st.sampled_from([1.0, 1.0, 0.5, 0.95, 0.0]), st.floats(0.0, 1.0)),
        min_p=st.one_of(st.sampled_from([0.0, 0.0, 0.05, 1.0]), st.floats(0.0, 1.0)),
        repeat_penalty=st.sampled_from([1.0, 1.0, 1.3, 0.8]),
        frequency_penalty=st.sampled_from([0.0, 0.0, 0.7, -0.4]),
        presence_penalty=st.sampled_from([0.0, 0.0, 1.5, -1.0]),
        penalty_last_n=st.sampled_from([0, 1, 3, 64]),
        seed=st.integers(0, 2**64 - 1),
        logit_bias=st.dictionaries(token, st.floats(-5.0, 5.0), max_size=2).map(lambda d: tuple(d.items())),
        banned=st.lists(token, max_size=2).map(tuple),
    )
