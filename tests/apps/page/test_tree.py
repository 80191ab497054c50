"""Drawings of drafts with branches, which the toy's drafters do not make."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.apps.page.toy_page import Visitor

DRAW = "async tree => { const { Tree } = await import('/page/tree.js'); new Tree().show(tree); }"


def node(text: str, parent: int, source: str = "") -> dict[str, object]:
    return {"text": text, "parent": parent, "accepted": bool(source), "source": source}


# a - b - c, and beside b the accepted d - e.
BRANCHED = {
    "nodes": [node(" a", -1, "lookup"), node("b", 0), node("c\n", 1), node("d", 0, "lookup"), node("", 3, "lookup")],
    "next": " x",
}


@pytest.fixture
def drawn(visitor: Visitor) -> Page:
    visitor.page.evaluate(DRAW, BRANCHED)
    return visitor.page


def caption(page: Page) -> str:
    return page.locator("#node").text_content() or ""


def test_a_branch_is_followed_to_its_end_the_accepted_one_first(drawn: Page) -> None:
    nodes = drawn.locator("#tree .node").all()
    rows = sorted((int(one.get_attribute("data-row") or ""), one.text_content()) for one in nodes)
    assert [text for _, text in rows] == ["·a", "d", "∅", "b", "c↵"]
    columns = {one.text_content(): one.locator("circle").get_attribute("cx") for one in nodes}
    assert columns["·a"] == columns["d"] == columns["∅"]
    assert columns["b"] == columns["c↵"] != columns["·a"]
    assert drawn.locator("#tree .node.accepted").count() == 3
    assert drawn.locator("#tree .edge").count() == 5
    assert caption(drawn) == "The model then said “·x” by itself."


def test_a_node_tells_its_text_and_what_became_of_it(drawn: Page) -> None:
    drawn.locator("#tree .node", has_text="c").hover()
    expect(drawn.locator("#node")).to_have_text("“c↵”, 3 tokens ahead: not accepted")
    drawn.locator("#model").hover()
    expect(drawn.locator("#node")).to_have_text("The model then said “·x” by itself.")


def test_arrow_keys_walk_through_it_from_one_tab_stop(drawn: Page) -> None:
    assert drawn.locator('#tree [tabindex="0"]').count() == 1
    drawn.locator('#tree [tabindex="0"]').focus()
    assert caption(drawn) == "“·a”, 1 token ahead: accepted, a guess of lookup"
    drawn.keyboard.press("ArrowUp")
    drawn.keyboard.press("ArrowDown")
    assert caption(drawn) == "“d”, 2 tokens ahead: accepted, a guess of lookup"
    for _ in range(5):
        drawn.keyboard.press("ArrowDown")
    assert caption(drawn) == "“c↵”, 3 tokens ahead: not accepted"
    assert drawn.locator('#tree [tabindex="0"]').count() == 1


def test_a_draft_that_is_looked_at_is_left_until_the_next_answer(drawn: Page) -> None:
    drawn.locator('#tree [tabindex="0"]').focus()
    drawn.evaluate(DRAW, {"nodes": [node("z", -1)], "next": ""})
    assert drawn.locator("#tree .node").count() == 5


def test_a_wide_draft_keeps_room_for_its_texts(visitor: Visitor) -> None:
    wide = {"nodes": [node(f"w{i}", -1) for i in range(24)], "next": ""}
    visitor.page.evaluate(DRAW, wide)
    texts = visitor.page.locator("#tree .node text")
    assert texts.count() == 24
    assert max(float(one.get_attribute("x") or "") for one in texts.all()) < 200
    assert caption(visitor.page) == ""
