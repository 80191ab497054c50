"""The figures beside an answer are those of its own rounds."""

from __future__ import annotations

from edgespec.tally import Tallied
from tests.apps.page.toy_page import VOCAB, Served, Visitor

EMPTY = "\N{EN DASH}"
NUMBERS = ("per_pass", "accepted", "rate", "speedup", "drafter", "passes", "first", "seed")


def share(n: int, of: int) -> str:
    return f"{(200 * n + of) // (2 * of)} %"  # halves are rounded up, as JavaScript does


def expected_depths(tallied: Tallied) -> list[str]:
    return [f"{ahead}: {share(one.n_accepted, one.n_tried)}" for ahead, one in enumerate(tallied.by_depth, 1)]


def test_it_is_empty_before_the_first_answer(visitor: Visitor) -> None:
    assert {visitor.number(name) for name in NUMBERS} == {EMPTY}
    assert visitor.page.locator("#bars li").count() == 0
    assert visitor.page.locator("#tree svg").count() == 0


def test_it_equals_the_tally_of_the_same_request(visitor: Visitor, toy: Served) -> None:
    visitor.ask("hello")
    tallied = toy.rounds.tallied()
    assert tallied.n_accepted > 10
    assert visitor.number("per_pass") == f"{tallied.tokens_per_pass:.2f}"
    n, of = tallied.n_accepted, tallied.n_drafted
    assert visitor.number("accepted") == f"{n} of {of} ({share(n, of)})"
    assert visitor.number("passes") == str(tallied.n_passes)
    assert visitor.number("drafter") == "suffix"
    assert visitor.number("speedup") == "not measured"
    assert visitor.number("seed") == "3"
    assert float(visitor.number("rate")) > 0.0
    assert visitor.number("first").endswith(" ms")
    assert visitor.page.locator("#bars li").all_text_contents() == expected_depths(tallied)
    n, of = tallied.by_depth[0].n_accepted, tallied.by_depth[0].n_tried
    title = f"{n} of {of} guesses 1 token ahead came true: {share(n, of)}"
    assert visitor.page.locator("#bars li").first.get_attribute("title") == title
    why = visitor.page.locator("#why").text_content() or ""
    said = f"Suffix drafted, and {tallied.n_accepted} of {tallied.n_drafted} guesses came true"
    assert why == f"{said}; whether that pays was not measured here yet."


def test_the_last_draft_is_drawn(visitor: Visitor, toy: Served) -> None:
    visitor.ask("hello")
    last = toy.rounds.tallied().last
    assert last is not None
    shown = [VOCAB.piece(token).decode().replace(" ", "·").replace("\n", "↵") for token in last.tree_tokens]
    assert visitor.page.locator("#tree .node text").all_text_contents() == shown
    assert visitor.page.locator("#tree .node.accepted").count() == len(last.path)


def test_what_is_not_drafted_is_said(visitor: Visitor) -> None:
    visitor.ask("hello")
    visitor.page.get_by_text("Settings", exact=True).click()
    visitor.choose("Draft", "off")
    visitor.ask("hello")
    assert visitor.number("accepted") == "nothing drafted"
    assert visitor.number("drafter") == "none"
    assert visitor.number("per_pass") == "1.00"
    assert visitor.page.locator("#why").text_content() == "Drafting is switched off."
    assert visitor.page.locator("#bars li").count() == 0
    assert visitor.page.locator("#tree svg").count() == 0
    assert visitor.page.locator("#legend li").count() == 0


def test_it_begins_anew_with_every_chat(visitor: Visitor) -> None:
    visitor.ask("hello")
    visitor.button("New chat").click()
    assert {visitor.number(name) for name in NUMBERS} == {EMPTY}
    assert visitor.page.locator("#tree svg").count() == 0
