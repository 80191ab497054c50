from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgespec.errors import BadInput
from edgespec.exporting.layerlist import format_layers, parse_layers


def test_by_hand() -> None:
    assert parse_layers("0-3,7, 9-9,2") == (0, 1, 2, 3, 7, 9)
    assert format_layers((0, 1, 2, 3, 7, 9, 10)) == "0-3,7,9-10"
    assert format_layers(()) == ""


@given(st.sets(st.integers(0, 200), min_size=1))
def test_what_is_written_is_read(layers: set[int]) -> None:
    listed = tuple(sorted(layers))
    assert parse_layers(format_layers(listed)) == listed


@pytest.mark.parametrize("text", ["", ",", "3-", "-3", "5-2", "a", "1,,2", "1.5", "1-2-3", "some", "99999", "٣"])
def test_wrong_lists(text: str) -> None:
    with pytest.raises(BadInput, match="give all, auto, or a list such as"):
        parse_layers(text)
