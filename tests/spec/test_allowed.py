from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.spec.allowed import AllowedTokens, allow

N_VOCAB = st.integers(1, 70)


@given(N_VOCAB.flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1)))))
def test_all_views_of_the_bits_agree(case: tuple[int, set[int]]) -> None:
    n_vocab, tokens = case
    allowed = allow(sorted(tokens), n_vocab)
    assert allowed.bits.dtype == np.uint8
    assert len(allowed.bits) == (n_vocab + 7) // 8
    assert len(allowed) == len(tokens)
    assert allowed.ids().tolist() == sorted(tokens)
    assert np.flatnonzero(allowed.flags(n_vocab)).tolist() == sorted(tokens)
    assert len(allowed.flags(n_vocab)) == n_vocab
    assert [token for token in range(n_vocab + 20) if token in allowed] == sorted(tokens)


def test_no_token_at_all() -> None:
    none = AllowedTokens(np.zeros(2, np.uint8))
    assert len(none) == 0
    assert none.ids().tolist() == []
    assert 3 not in none
    assert not none.flags(11).any()


def test_a_row_longer_than_the_bits_allows_nothing_there() -> None:
    assert allow([0], 8).flags(20).tolist() == [True] + [False] * 19


def test_a_token_outside_the_vocabulary_is_refused() -> None:
    with pytest.raises(IndexError):
        allow([8], 8)
