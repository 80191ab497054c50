"""Every drafter has a colour that the style sheet knows."""

from __future__ import annotations

from edgespec.choice import DRAFTERS
from edgespec.cli.paint import COLOURS
from tests.apps.page.toy_page import Visitor

TINTS = """async names => {
    const { tintOf } = await import("/page/tint.js");
    return names.map(name => {
        const span = document.createElement("span");
        span.className = `guess tint-${tintOf(name)}`;
        document.body.append(span);
        return getComputedStyle(span).backgroundColor;
    });
}"""


def test_every_drafter_has_a_colour_and_the_usual_ones_their_own(visitor: Visitor) -> None:
    usual = list(COLOURS)
    colours = visitor.page.evaluate(TINTS, [*usual, *DRAFTERS, "a drafter of somebody's"])
    assert "rgba(0, 0, 0, 0)" not in colours
    assert len(set(colours[: len(usual)])) == len(usual)
