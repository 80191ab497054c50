"""Sizes and counts as people read them."""

import pytest

from edgespec.library.units import readable_bytes, readable_count


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (98362432, "98 MB"),
        (9_949_000_000, "9.9 GB"),
        (2 * 10**13, "20 TB"),
    ],
)
def test_readable_bytes(n_bytes: int, text: str) -> None:
    assert readable_bytes(n_bytes) == text


@pytest.mark.parametrize(("count", "text"), [(7, "7"), (134515008, "135M"), (1100048384, "1.1B"), (49152, "49K")])
def test_readable_count(count: int, text: str) -> None:
    assert readable_count(count) == text
