"""The form says what requests ask for."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from edgespec.choice import AUTO, DRAFTERS, OFF
from tests.apps.page.toy_page import Visitor

OWN = {"rounds": True}


def asked(visitor: Visitor, text: str = "hello") -> dict[str, object]:
    """The body of the next request."""
    with visitor.page.expect_request("**/v1/chat/completions") as sent:
        visitor.ask(text)
    body: dict[str, object] = json.loads(sent.value.post_data or "")
    return body


@pytest.fixture(autouse=True)
def _open(visitor: Visitor) -> None:
    visitor.page.get_by_text("Settings", exact=True).click()


def test_what_is_left_empty_is_the_servers_to_choose(visitor: Visitor) -> None:
    assert asked(visitor) == {"stream": True, "messages": [{"role": "user", "content": "hello"}], "edgespec": OWN}


def test_what_is_filled_in_is_sent(visitor: Visitor) -> None:
    page = visitor.page
    page.get_by_label("System prompt").fill(" Be brief. ")
    values = {"Temperature": 0.5, "Top p": 0.9, "Top k": 5, "Min p": 0.1, "Most tokens": 12, "Seed": 7}
    for label, value in values.items():
        page.get_by_label(label).fill(str(value))
    visitor.choose("Draft", "lookup")
    visitor.choose("Exact", "true")
    body = asked(visitor)
    assert body == {
        "stream": True,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}],
        "temperature": 0.5, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "max_tokens": 12, "seed": 7,
        "edgespec": {**OWN, "draft": "lookup", "exact": True},
    }  # fmt: skip
    assert visitor.number("seed") == "7, exact"


def test_an_impossible_number_is_shown_instead_of_sent(visitor: Visitor) -> None:
    visitor.page.get_by_label("Temperature").fill("-1")
    visitor.page.get_by_text("Settings", exact=True).click()
    visitor.say("hello")
    expect(visitor.page.get_by_label("Temperature")).to_be_focused()
    assert visitor.turns.count() == 0
    assert visitor.message.input_value() == "hello"


def test_every_drafter_can_be_chosen(visitor: Visitor) -> None:
    offered = visitor.page.get_by_role("combobox", name="Draft").locator("option").all_text_contents()
    assert sorted(offered[1:]) == sorted([AUTO, OFF, *DRAFTERS])
