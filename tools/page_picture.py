"""Pictures of the chat page, in light and in dark: an answer of a real model, with what its drafts did in the panel.

Needs a Chromium, the package `playwright`, and a model that was tuned on this machine, so that it drafts.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from playwright.sync_api import Page, expect, sync_playwright

from edgespec.engine import Engine, EngineOptions, GenerateOptions
from edgespec.errors import BadInput
from edgespec.server.access import Access
from edgespec.server.desk import Limits
from edgespec.server.running import Serving, listen, make_server
from edgespec.server.wire import Defaults

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-background-networking")
SIZE = (1180, 860)
ANSWER_MS = 120_000.0
# A small model takes most of the answer out of the question, and not all of it: copies come true and fail.
QUESTION = """Repeat this text, with a comma after each time of day:

The lighthouse stands on the northern cliff. Every evening the keeper climbs the narrow stairs, lights the lamp, and \
writes the weather into the book. Every morning the keeper climbs the narrow stairs, puts out the lamp, and reads what \
he wrote. In winter the sea comes up to the door of the lighthouse, and the keeper stays inside."""


@click.command()
@click.option("--model", help="A GGUF file, or another name of a model; the starter model if none.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("docs/images"), show_default=True)
@click.option("--threads", type=click.IntRange(1), help="Of the model; the machine's cores if not given.")
@click.option("--draft", default="", help="As in the page's form; the server's own choice if not given.")
@click.option("--question", default=QUESTION, show_default=False, help="What the model is asked.")
def main(model: str | None, out: Path, threads: int | None, draft: str, question: str) -> None:
    """Writes page.png and page-dark.png."""
    out.mkdir(parents=True, exist_ok=True)
    with Engine.open(model, EngineOptions(threads=threads)) as engine, served(engine) as url, opened(url) as page:
        if draft:
            page.get_by_text("Settings", exact=True).click()
            page.get_by_role("combobox", name="Draft", exact=True).select_option(draft)
            page.get_by_text("Settings", exact=True).click()
        ask(page, question)
        page.screenshot(path=out / "page.png")
        page.emulate_media(color_scheme="dark")
        page.screenshot(path=out / "page-dark.png")


def ask(page: Page, question: str) -> None:
    page.get_by_label("Message", exact=True).fill(question)
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("status")).to_have_text("The answer is complete.", timeout=ANSWER_MS)


@contextmanager
def served(engine: Engine) -> Iterator[str]:
    """The address of a server that ends with the block."""
    begun = threading.Event()
    serving = Serving(Access(), Limits(), Defaults(GenerateOptions(max_tokens=160), seed=1))
    with listen("127.0.0.1", 0) as listening:
        server = make_server(engine, serving, begun.set)
        thread = threading.Thread(target=lambda: server.run(sockets=[listening]))
        thread.start()
        try:
            begun.wait()
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def opened(url: str) -> Iterator[Page]:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise BadInput("no browser", f"none of {', '.join(BROWSERS)} is installed", "install Chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=Path(found), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]}, color_scheme="light")
        page.goto(url)
        yield page
        browser.close()


if __name__ == "__main__":
    main()
