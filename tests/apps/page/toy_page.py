"""A server over the toy whose answers can be read, what its rounds were, and a visitor of its page."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from playwright.sync_api import ConsoleMessage, Error, Locator, Page, Request, expect

from edgespec.backend.toy import ToyModel
from edgespec.engine import Engine, Extras, GenerateOptions
from edgespec.server.access import Access
from edgespec.server.wire import Defaults
from edgespec.spec.law import SamplingSettings
from edgespec.spec.ports import Capabilities
from tests.engine.toy_engine import EngineTarget, Pass, ToyOpened
from tests.server.serving import Running, running
from tests.server.watched import Watched
from tests.text.toy_vocab import ToyVocabulary

# Markup and an accent, that a page must show as they are.
WORDS = (b" river", b" <b>bridge</b>", b" the", " é".encode(), b" &amp; ", b"\n")
VOCAB = ToyVocabulary(WORDS)
LIMITS = Capabilities(n_ctx=4000, n_vocab=VOCAB.n_vocab, max_rows=16, max_chunk=32, max_leaves=4, can_rollback=True)
ONLY_WORDS = SamplingSettings(banned=(*range(256), *VOCAB.special_tokens.values()))
N_TOKENS = 40
SHORT = Defaults(GenerateOptions(ONLY_WORDS, max_tokens=N_TOKENS), seed=3)
ENDLESS = Defaults(GenerateOptions(ONLY_WORDS, max_tokens=3000), seed=3)


@dataclass(frozen=True, slots=True)
class Served:
    server: Running
    target: EngineTarget
    rounds: Watched


def linger(_: Pass) -> None:
    """Before every pass, for tests that must come in the middle of an answer."""
    time.sleep(0.01)


@contextmanager
def served(defaults: Defaults = SHORT, access: Access | None = None) -> Iterator[Served]:
    # Of this seed answers say every word, and soon repeat themselves, so that copies come true.
    target = EngineTarget(ToyModel(n_vocab=VOCAB.n_vocab, seed=51), LIMITS)
    opened, rounds = ToyOpened(target), Watched()
    opened.vocab = VOCAB
    with Engine(opened, "toy", [], Extras(rounds)) as engine, running(engine, access, defaults=defaults) as server:
        yield Served(server, target, rounds)


class Visitor:
    """Of a server's page. complaints: what the browser's console was told, and requests that left this server."""

    def __init__(self, page: Page, server: Running) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on("console", self._hear)
        page.on("pageerror", self._fail)
        page.on("request", self._check)
        self._home = f"{server.url}/"
        page.goto(server.url)
        expect(page.locator("#model")).to_have_text("toy")

    def leave(self) -> None:
        if self.page.is_closed():
            return
        self.page.evaluate("sessionStorage.clear()")
        self.page.remove_listener("console", self._hear)
        self.page.remove_listener("pageerror", self._fail)
        self.page.remove_listener("request", self._check)
        self.page.goto("about:blank")

    def _hear(self, message: ConsoleMessage) -> None:
        self.complaints.append(message.text)

    def _fail(self, error: Error) -> None:
        self.complaints.append(str(error))

    def _check(self, request: Request) -> None:
        if not request.url.startswith(self._home):
            self.complaints.append(f"it asked for {request.url}")

    @property
    def message(self) -> Locator:
        return self.page.get_by_label("Message", exact=True)

    @property
    def error(self) -> Locator:
        return self.page.get_by_role("alert")

    @property
    def turns(self) -> Locator:
        return self.page.locator("#log article")

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def say(self, text: str) -> None:
        self.message.fill(text)
        self.message.press("Enter")

    def ask(self, text: str) -> str:
        """Until the whole answer is there."""
        self.say(text)
        return self.answer()

    def answer(self) -> str:
        self.told("The answer is complete.")
        return self.page.locator("article.assistant .text").last.text_content() or ""

    def choose(self, name: str, value: str) -> None:
        """In the form, which must be open."""
        self.page.get_by_role("combobox", name=name, exact=True).select_option(value)

    def told(self, status: str) -> None:
        expect(self.page.get_by_role("status")).to_have_text(status)

    def number(self, name: str) -> str:
        return self.page.locator(f'[data-name="{name}"]').text_content() or ""

    def runs(self) -> list[tuple[str, str]]:
        """(drafter, text) of the last answer's stretches, "" for what was not guessed."""
        spans = self.page.locator("article.assistant .text").last.locator("span").all()
        return [(span.get_attribute("data-source") or "", span.text_content() or "") for span in spans]
