from __future__ import annotations

import numpy as np
import pytest

from edgespec.spec.pins import NONE_PINNED, check_pins, fit, kept, none_pinned, pins


def test_no_pins_are_one_array() -> None:
    assert none_pinned() is NONE_PINNED
    assert pins([]) is pins([False, False]) is kept(NONE_PINNED, slice(1)) is NONE_PINNED
    assert kept(np.array([True, False]), np.array([1])) is NONE_PINNED
    assert pins([False, True]).tolist() == [False, True]
    assert not NONE_PINNED.flags.writeable


@pytest.mark.parametrize(
    ("max_nodes", "max_leaves", "fits"), [(3, 2, True), (2, 2, False), (3, 1, False), (9, 9, True)]
)
def test_the_pinned_alone_must_fit(max_nodes: int, max_leaves: int, fits: bool) -> None:
    pinned = np.array([True, True, True, False])
    assert fit(pinned, np.array([-1, 0, -1, 2], np.int32), max_nodes, max_leaves) is fits


def test_a_pinned_node_hangs_from_pinned_ones() -> None:
    check_pins(np.array([True, True, False]), [-1, 0, 1])
    check_pins(NONE_PINNED, [-1, 0, 1])
    with pytest.raises(ValueError, match="hangs from"):
        check_pins(np.array([True, False, True]), [-1, 0, 1])
    with pytest.raises(ValueError, match=r"bool\[3\]"):
        check_pins(np.array([True]), [-1, 0, 1])
