"""A model that a program names, found on disk or else fetched, unless EDGESPEC_OFFLINE forbids it. Prints nothing."""

from __future__ import annotations

import os
from pathlib import Path

from edgespec.engine.progress import Download, OnProgress
from edgespec.library.fetch import fetch
from edgespec.library.reporter import Reporter
from edgespec.library.repository import fetch_repository_model
from edgespec.library.resolve import Fetchers, ResolvedModel, open_library, resolve


def find_model(model: str | Path | None, on_progress: OnProgress | None = None) -> ResolvedModel:
    """`on_progress` hears of a download only. Raises what `resolve` and the fetchers raise, and GivenUp."""
    library, download = open_library(), Download(on_progress)
    reporter = Reporter(download.announce, download.progress)
    offline = os.environ.get("EDGESPEC_OFFLINE", "").lower() not in ("", "0", "false", "no", "off")
    fetchers = Fetchers(
        card=lambda card: fetch(card, library.store, reporter, offline=offline, licence_accepted=False),
        repository=lambda wanted: fetch_repository_model(wanted, library.store, reporter, offline=offline),
    )
    return resolve(str(model) if model is not None else None, library, fetchers)
