"""The page as people use it."""

from __future__ import annotations

import threading
from itertools import groupby

import pytest
from playwright.sync_api import Page, expect

from edgespec.engine import CancelToken
from tests.apps.page.conftest import Visit
from tests.apps.page.toy_page import ENDLESS, VOCAB, Served, Visitor, linger, served
from tests.engine.toy_engine import Gate
from tests.server.serving import Running, until

LOADING = "Failed to load resource"


def plainly(server: Running, *said: str, **options: object) -> str:
    """What the server answers without drafts to questions and answers in turn."""
    messages = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(said)]
    with server.http() as http:
        body = {"messages": messages, "edgespec": {"draft": "off"}, **options}
        text: str = http.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]
    return text


def focused(page: Page) -> str:
    found: str = page.evaluate("document.activeElement.id")
    return found


# -- talking ----------------------------------------------------------------------------------------------------


def test_an_answer_is_shown_as_it_is_and_as_text_only(visitor: Visitor, toy: Served) -> None:
    answer = visitor.ask("hello <i>there</i>")
    assert answer == plainly(toy.server, "hello <i>there</i>")
    assert "<b>" in answer
    assert visitor.turns.locator("b, i").count() == 0
    assert visitor.turns.first.locator(".text").text_content() == "hello <i>there</i>"
    assert (
        visitor.turns.last.locator(".note").text_content() == "cut here: as long as it may be, or the context is full"
    )


def test_accepted_guesses_are_tinted_by_their_drafter(visitor: Visitor, toy: Served) -> None:
    visitor.ask("hello")
    said = [pair for report in toy.rounds.reports for pair in zip(report.sources, report.tokens, strict=True)]
    runs = groupby(said, key=lambda pair: pair[0])
    together = [(source, b"".join(VOCAB.piece(token) for _, token in run).decode()) for source, run in runs]
    assert visitor.runs() == together
    assert {source for source, _ in together} == {"", "suffix"}
    assert visitor.page.locator("#legend li").all_text_contents() == ["suffix"]


def test_a_conversation_is_sent_as_a_whole(visitor: Visitor, toy: Served) -> None:
    first = visitor.ask("one")
    assert visitor.ask("two") == plainly(toy.server, "one", first, "two")
    assert visitor.turns.count() == 4


def test_regenerate_undo_and_new_chat(visitor: Visitor, toy: Served) -> None:
    first = visitor.ask("one")
    visitor.ask("two")
    visitor.button("Regenerate").click()
    assert visitor.answer() == plainly(toy.server, "one", first, "two")
    assert visitor.turns.count() == 4
    visitor.button("Undo").click()
    assert visitor.message.input_value() == "two"
    assert visitor.turns.count() == 2
    assert focused(visitor.page) == "say"
    assert visitor.ask("three") == plainly(toy.server, "one", first, "three")
    visitor.button("New chat").click()
    assert visitor.turns.count() == 0
    assert visitor.button("Undo").is_disabled()
    assert visitor.ask("two") == plainly(toy.server, "two")


def test_the_keyboard_is_enough(visitor: Visitor) -> None:
    page, keys = visitor.page, visitor.page.keyboard
    assert focused(page) == "say"
    keys.type("a line")
    keys.press("Shift+Enter")
    keys.type("another")
    keys.press("Enter")
    visitor.answer()
    assert visitor.turns.first.locator(".text").text_content() == "a line\nanother"
    assert focused(page) == "say"
    reached = []
    for _ in range(5):
        keys.press("Shift+Tab")
        reached.append(focused(page))
    assert reached[:4] == ["log", "new", "again", "undo"]
    keys.press("Tab")
    assert focused(page) == "undo"
    keys.press("Enter")
    assert visitor.turns.count() == 0
    assert visitor.message.input_value() == "a line\nanother"


def test_an_empty_message_is_not_sent(visitor: Visitor) -> None:
    visitor.say("  ")
    assert visitor.turns.count() == 0
    assert visitor.button("Send").is_visible()


def test_everything_that_can_be_reached_has_a_name(visitor: Visitor) -> None:
    visitor.page.get_by_text("Settings", exact=True).click()
    controls = visitor.page.locator("button:visible, input:visible, select:visible, textarea:visible, [role=log]")
    assert controls.count() > 12
    for one in controls.all():
        expect(one).not_to_have_accessible_name("")
    assert visitor.page.get_by_role("log").get_attribute("aria-live") == "polite"


# -- stopping ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_key", [False, True])
def test_stop_ends_an_answer_within_one_pass(visit: Visit, by_key: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    cancelled, cancel = threading.Event(), CancelToken.cancel

    def told(token: CancelToken) -> None:
        cancel(token)
        cancelled.set()

    monkeypatch.setattr(CancelToken, "cancel", told)
    with served(ENDLESS) as toy:
        gate = Gate(toy.target, lambda one: one.width > 0 and len(toy.target.passes) >= 12)
        visitor = visit(toy.server)
        visitor.say("hello")
        gate.wait_until_reached()
        expect(visitor.turns.last.locator("span").first).to_be_visible()
        n_passes = len(toy.target.passes)
        if by_key:
            visitor.page.keyboard.press("Escape")
        else:
            visitor.button("Stop").click()
        visitor.told("Stopped.")
        assert cancelled.wait(30.0)
        gate.open()
        until(lambda: toy.server.n_open() == 0)
        assert len(toy.target.passes) == n_passes + 1
        assert visitor.turns.last.locator(".note").text_content() == "stopped"
        assert visitor.error.is_hidden()
        assert focused(visitor.page) == "say"
        toy.target.before_pass = linger
        visitor.button("Regenerate").click()
        expect(visitor.button("Stop")).to_be_visible()
        visitor.page.keyboard.press("Escape")
        visitor.told("Stopped.")
        until(lambda: toy.server.n_open() == 0)


def test_a_question_stopped_before_any_answer_goes_back(visit: Visit) -> None:
    with served() as toy:
        gate = Gate(toy.target, lambda _: True)
        visitor = visit(toy.server)
        visitor.say("a question")
        gate.wait_until_reached()
        visitor.button("Stop").click()
        visitor.told("Stopped.")
        assert visitor.message.input_value() == "a question"
        assert visitor.turns.count() == 0
        until(lambda: toy.server.n_open() == 0)
        assert toy.target.passes == []


@pytest.mark.parametrize("leave", ["reload", "close"])
def test_a_page_that_is_left_in_mid_answer_leaves_nothing_running(visit: Visit, leave: str) -> None:
    with served(ENDLESS) as toy:
        toy.target.before_pass = linger
        visitor = visit(toy.server)
        visitor.say("hello")
        expect(visitor.turns.last.locator("span").first).to_be_visible()
        assert toy.server.n_open() == 1
        if leave == "reload":
            visitor.page.reload()
        else:
            visitor.page.close()
        until(lambda: toy.server.n_open() == 0)
        assert toy.server.metric('edgespec_answers_total{finish="cancelled"}') == 1


# -- what goes wrong --------------------------------------------------------------------------------------------


def test_a_refusal_is_one_sentence_and_the_question_goes_back(visitor: Visitor) -> None:
    visitor.say("word " * 3000)
    expect(visitor.error).to_contain_text("tokens")
    assert visitor.turns.count() == 0
    assert visitor.message.input_value().startswith("word word")
    visitor.ask("hello")
    assert visitor.error.is_hidden()
    assert all(complaint.startswith(LOADING) for complaint in visitor.complaints)
    visitor.complaints.clear()


def test_a_server_that_is_gone_is_said(visit: Visit) -> None:
    with served(ENDLESS) as toy:
        toy.target.before_pass = linger
        visitor = visit(toy.server)
        visitor.say("hello")
        expect(visitor.turns.last.locator("span").first).to_be_visible()
        toy.server.stop()
        expect(visitor.error).to_have_text("the answer was dropped: the server is shutting down; ask again.")
        assert visitor.turns.last.locator(".note").text_content() == "broken off"
        until(lambda: not toy.server.listens())
    visitor.say("again")
    expect(visitor.error).to_have_text("The server cannot be reached: it may have ended.")
    assert all(complaint.startswith(LOADING) for complaint in visitor.complaints)
    visitor.complaints.clear()


# -- the browser ------------------------------------------------------------------------------------------------


def test_what_is_not_the_servers_own_is_kept_out_by_the_browser(visitor: Visitor) -> None:
    blocked: list[str | None] = []
    visitor.page.on("requestfailed", lambda request: blocked.append(request.failure))
    visitor.page.evaluate(
        """() => {
            const image = new Image();
            image.src = "http://localhost:9/x.png";
            const script = document.createElement("script");
            script.textContent = "window.injected = true";
            document.body.append(image, script);
        }"""
    )
    until(lambda: visitor.page.evaluate("window.injected") is None and len(visitor.complaints) == 3)
    assert blocked == ["csp"]
    assert sum("Content Security Policy" in complaint for complaint in visitor.complaints) == 2
    visitor.complaints.clear()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_system(visitor: Visitor, scheme: str) -> None:
    visitor.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    ground = visitor.page.evaluate("getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)")
    assert (max(ground) < 60) if scheme == "dark" else (min(ground) > 200)
