from __future__ import annotations

import numpy as np
import pytest

from edgespec.errors import BadInput
from edgespec.exporting.vocabulary import TokenMass


def mass_of(*rows: dict[int, float], n_vocab: int = 100) -> TokenMass:
    """Rows that give these tokens these probabilities, and others none."""
    found = TokenMass(n_vocab)
    for row in rows:
        logits = np.full(n_vocab, -np.inf, dtype=np.float32)
        for token, p in row.items():
            logits[token] = np.log(p) + 7
        found.add(logits)
    return found


def test_what_was_expected_and_then_low_ids_and_always_the_special_ones() -> None:
    mass = mass_of({90: 0.5, 80: 0.3, 70: 0.2}, {70: 0.9, 80: 0.1})
    assert mass.mass[[70, 80, 90]] == pytest.approx([1.1, 0.4, 0.5])
    assert mass.head_ids(4, {99, 98}).tolist() == [70, 90, 98, 99]
    assert mass.head_ids(5, [99, 98]).tolist() == [70, 80, 90, 98, 99]
    assert mass.head_ids(8, [99, 99]).tolist() == [0, 1, 2, 3, 70, 80, 90, 99]
    assert mass.head_ids(100, [1]).tolist() == list(range(100))


def test_what_was_nearly_said_counts() -> None:
    """A token that never was the first choice, and one that is as good as impossible."""
    mass = mass_of(*[{50: 0.6, 60: 0.4 - 1e-8, 61: 1e-8}] * 3)
    assert mass.head_ids(2, []).tolist() == [50, 60]
    assert mass.head_ids(3, []).tolist() == [50, 60, 61]


def test_before_anything_was_seen() -> None:
    assert TokenMass(100).head_ids(3, []).tolist() == [0, 1, 2]


@pytest.mark.parametrize("n", [0, 1, 101])
def test_sizes_that_cannot_be(n: int) -> None:
    with pytest.raises(BadInput, match=f"a vocabulary of {n} tokens"):
        TokenMass(100).head_ids(n, [98, 99])
