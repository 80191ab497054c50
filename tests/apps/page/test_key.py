"""A server that wants a key."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from edgespec.server.access import Access
from tests.apps.page.conftest import Visit
from tests.apps.page.toy_page import Served, Visitor, served

KEY = "a-key-of-this-test"
REFUSED = "Failed to load resource: the server responded with a status of 401"


@pytest.fixture(scope="module")
def locked() -> Iterator[Served]:
    with served(access=Access(key=KEY)) as one:
        yield one


@pytest.fixture
def visitor(visit: Visit, locked: Served) -> Visitor:
    return visit(locked.server)


def give(visitor: Visitor, key: str) -> None:
    expect(visitor.page.get_by_role("dialog")).to_be_visible()
    visitor.page.keyboard.type(key)  # the field has the focus
    visitor.page.keyboard.press("Enter")


def forgive(visitor: Visitor, n: int) -> None:
    """The browser reports refusals by itself."""
    assert [complaint.startswith(REFUSED) for complaint in visitor.complaints] == [True] * n
    visitor.complaints.clear()


def test_a_key_is_asked_for_once_and_kept_for_the_tab(visitor: Visitor, visit: Visit, locked: Served) -> None:
    visitor.say("hello")
    give(visitor, KEY)
    first = visitor.answer()
    assert visitor.ask("again")
    visitor.page.reload()
    expect(visitor.page.locator("#model")).to_have_text("toy")
    assert visitor.ask("hello") == first
    forgive(visitor, 1)
    other = visit(locked.server)
    other.say("hello")
    expect(other.page.get_by_role("dialog")).to_be_visible()
    forgive(other, 1)


def test_a_wrong_key_is_said_and_asked_for_again(visitor: Visitor) -> None:
    visitor.say("hello")
    give(visitor, "wrong")
    expect(visitor.error).to_have_text("the key: it is not this server's; send 'Authorization: Bearer KEY'.")
    assert visitor.message.input_value() == "hello"
    visitor.message.press("Enter")
    expect(visitor.page.locator("#door-why")).to_have_text("The key it was given is not its own.")
    give(visitor, KEY)
    assert visitor.answer()
    forgive(visitor, 3)


@pytest.mark.parametrize("by_key", [False, True])
def test_without_a_key_the_question_goes_back(visitor: Visitor, by_key: bool) -> None:
    visitor.say("hello")
    expect(visitor.page.get_by_role("dialog")).to_be_visible()
    if by_key:
        visitor.page.keyboard.press("Escape")
    else:
        visitor.button("Cancel").click()
    expect(visitor.button("Send")).to_be_visible()
    assert visitor.message.input_value() == "hello"
    assert visitor.turns.count() == 0
    forgive(visitor, 1)
