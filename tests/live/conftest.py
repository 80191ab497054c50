"""The model that live tests run: EDGESPEC_TEST_MODEL where it is set, else the starter model, fetched when missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgespec.library.fetch import fetch
from edgespec.library.reporter import silent_reporter
from edgespec.library.resolve import installed_path, open_library, require_default


@pytest.fixture(scope="session")
def starter_model() -> Path:
    named = os.environ.get("EDGESPEC_TEST_MODEL")
    if named:
        return Path(named)
    library = open_library()
    card = require_default(library)
    found = installed_path(card, library)
    return found or fetch(card, library.store, silent_reporter(), offline=False, licence_accepted=False)
