from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.spec.drawn import check_laws
from edgespec.spec.law import Sparse


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=400), st.integers(0, 399))
def test_a_law_of_any_size_that_was_renormalised_passes(weights: list[float], drawn: int) -> None:
    p = np.array(weights) / np.array(weights).sum()
    law = Sparse(np.arange(3, 3 + 2 * len(p), 2, dtype=np.int32), p)
    check_laws((law, None), [int(law.ids[drawn % len(p)])], [-1])


def test_every_child_must_be_in_its_parents_law() -> None:
    law = Sparse(np.array([1, 4], np.int32), np.array([0.5, 0.5]))
    check_laws((law, None, law, None), [4, 1, 1], [-1, -1, 1])
    with pytest.raises(ValueError, match=r"the law of \[4, 2\] cannot draw"):
        check_laws((law, None, law, None), [4, 2, 1], [-1, -1, 1])
