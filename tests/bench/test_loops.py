from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgespec.bench.loops import is_looping


def plainly(tokens: list[int]) -> bool:
    """The definition, token by token."""
    last = tokens[-64:]
    return len(last) == 64 and any(all(last[i] == last[i - p] for i in range(p, 64)) for p in range(1, 33))


@given(st.lists(st.integers(0, 1), max_size=70), st.lists(st.integers(0, 2), min_size=1, max_size=40))
def test_it_is_the_definition(start: list[int], circle: list[int]) -> None:
    for tokens in (start, start + circle * (64 // len(circle) + 1), (circle * 70)[:64], (circle * 70)[:63]):
        assert is_looping(tokens) is plainly(tokens)


def test_periods_at_the_edge() -> None:
    assert is_looping(list(range(32)) * 2)
    assert not is_looping(list(range(33)) * 2)
    assert not is_looping([1] * 63)
    assert is_looping([1] * 64)
    assert not is_looping([1] * 63 + [2])
