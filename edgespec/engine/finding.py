"""A model that a program names, found on disk or else fetched in silence, unless EDGESPEC_OFFLINE forbids it."""

from __future__ import annotations

import os
from pathlib import Path

from edgespec.library.fetch import fetch
from edgespec.library.reporter import Reporter
from edgespec.library.repository import fetch_repository_model
from edgespec.library.resolve import Fetchers, ResolvedModel, open_library, resolve


def find_model(model: str | Path | None) -> ResolvedModel:
    """Raises what `resolve` and the fetchers raise."""
    library, reporter = open_library(), Reporter(announce=lambda _line: None, progress=lambda _done, _total: None)
    offline = os.environ.get("EDGESPEC_OFFLINE", "").lower() not in ("", "0", "false", "no", "off")
    fetchers = Fetchers(
        card=lambda card: fetch(card, library.store, reporter, offline=offline, licence_accepted=False),
        repository=lambda wanted: fetch_repository_model(wanted, library.store, reporter, offline=offline),
    )
    return resolve(str(model) if model is not None else None, library, fetchers)
