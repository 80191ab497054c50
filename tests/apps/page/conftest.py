"""One headless Chromium for all tests of the page; each loads it anew, and leaves the console clean."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests import needs
from tests.apps.page.toy_page import Served, Visitor, served
from tests.server.serving import DEADLINE_SECONDS, Running

ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
Visit = Callable[[Running], Visitor]


@pytest.fixture(autouse=True, scope="package")
def _isolated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGESPEC_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("EDGESPEC_OFFLINE", "1")
        yield


# Of the package, not of the session: while it lives this thread has a running loop, which tests of asyncio cannot bear.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    found = needs.browser()
    assert found, "without one these tests are left out"
    expect.set_options(timeout=1000.0 * DEADLINE_SECONDS)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=Path(found), args=ARGUMENTS)
        yield launched
        launched.close()


class Tabs:
    """One tab for all visits, since opening one takes most of a second; further ones while it is taken."""

    def __init__(self, context: BrowserContext) -> None:
        self._context = context
        self._pages: list[Page] = []

    def free(self, n_taken: int) -> Page:
        self._pages = [page for page in self._pages if not page.is_closed()]
        if len(self._pages) <= n_taken:
            self._pages.append(self._context.new_page())
            self._pages[-1].set_default_timeout(1000.0 * DEADLINE_SECONDS)
        return self._pages[n_taken]

    def close_further(self) -> None:
        """A tab behind another one draws a frame a second, and every click waits for one."""
        for page in self._pages[1:]:
            page.close()


@pytest.fixture(scope="package")
def tabs(browser: Browser) -> Tabs:
    return Tabs(browser.new_context())


@pytest.fixture
def visit(tabs: Tabs) -> Iterator[Visit]:
    visitors: list[Visitor] = []

    def go(server: Running) -> Visitor:
        visitors.append(Visitor(tabs.free(len(visitors)), server))
        return visitors[-1]

    yield go
    for one in visitors:
        one.leave()
    tabs.close_further()
    assert [complaint for one in visitors for complaint in one.complaints] == []


@pytest.fixture(scope="module")
def toy() -> Iterator[Served]:
    """For tests that look at answers, not at what runs."""
    with served() as one:
        yield one


@pytest.fixture
def visitor(visit: Visit, toy: Served) -> Visitor:
    toy.rounds.reports.clear()
    return visit(toy.server)
