from __future__ import annotations

import pytest

from apps.desk.tints import HUES, OTHERS, Rgb, hue, tint
from edgespec.choice import DRAFTERS

WHITE, BLACK, DARK = (255, 255, 255), (0, 0, 0), (35, 38, 41)


def luminance(colour: Rgb) -> float:
    """Relative, as the rules for readable pages define it."""
    parts = [value / 255 for value in colour]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: Rgb, other: Rgb) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("source", [*DRAFTERS, "given", "suffix+lookup"])
def test_text_on_a_tint_stays_readable(source: str) -> None:
    # 4.5 is what the rules ask of ordinary text.
    assert contrast(BLACK, tint(source, WHITE)) >= 4.5
    assert contrast(WHITE, tint(source, DARK)) >= 4.5
    assert tint(source, WHITE) != WHITE


def test_known_drafters_have_hues_of_their_own() -> None:
    assert len(set(HUES.values())) == len(HUES)
    assert hue("someone else") in OTHERS
    assert hue("someone else") == hue("someone else")
