"""Getting a model for a command: what is said on stderr meanwhile, and the question about its licence."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from edgespec.errors import MissingExtra
from edgespec.library.card import ModelCard
from edgespec.library.fetch import fetch, licence_text, require_network
from edgespec.library.reporter import Reporter
from edgespec.library.repository import fetch_repository_model
from edgespec.library.resolve import Fetchers, Library, ResolvedModel, open_library, resolve


def ensure_model(
    argument: str | None, *, offline: bool, console: Console, accept_licence: bool = False
) -> ResolvedModel:
    """The model that `argument` names, downloaded first if it must be. `console` writes to stderr.

    Raises what `resolve`, `fetch` and `fetch_repository_model` raise.
    """
    library = open_library()
    with _reporting(console) as reporter:
        fetchers = Fetchers(
            card=lambda card: _fetch_card(card, library, reporter, offline, accept_licence),
            repository=lambda model: fetch_repository_model(model, library.store, reporter, offline=offline),
        )
        return resolve(argument, library, fetchers)


def is_interactive() -> bool:
    """True when there is somebody to answer a question."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _fetch_card(card: ModelCard, library: Library, reporter: Reporter, offline: bool, accept_licence: bool) -> Path:
    require_network(f"model {card.id}", offline)
    accepted = accept_licence
    if card.licence.must_accept and accepted:
        reporter.announce(f"{card.licence.notice.strip()}\nAccepted by --accept-licence.")
    elif card.licence.must_accept and is_interactive():
        accepted = _ask(card, library, reporter)
    return fetch(card, library.store, reporter, offline=offline, licence_accepted=accepted)


def _ask(card: ModelCard, library: Library, reporter: Reporter) -> bool:
    try:
        text = licence_text(card, library.store, reporter, offline=False)
    except MissingExtra:
        # No pip to fetch the whole text with; the notice says where it can be read.
        text = card.licence.notice
    reporter.announce(text.strip())
    reporter.announce(card.licence.notice.strip())
    return click.confirm(f"Do you accept the {card.licence.name} ({card.licence.url})?", err=True)


@contextmanager
def _reporting(console: Console) -> Iterator[Reporter]:
    """Sentences as plain lines, bytes as one bar that goes when the download is over."""
    screen = _Screen(console)
    try:
        yield Reporter(screen.announce, screen.progress)
    finally:
        screen.clear()


class _Screen:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar: Progress | None = None

    def announce(self, line: str) -> None:
        self.clear()
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def progress(self, n_done: int, n_total: int) -> None:
        if self._bar is None:
            columns = (TextColumn("  "), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._bar.add_task("", total=n_total)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=n_done, total=n_total)

    def clear(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
