"""A real model for the tests that need one. CI keeps the folder it is downloaded to."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from rich.console import Console

from edgespec.cli.downloads import ensure_model

# There is no tmux for Windows; the chat is tested there by keys that a program presses (tests/cli/test_chat.py).
collect_ignore = ["test_terminal.py"] if sys.platform == "win32" else []


@pytest.fixture(scope="session")
def starter_model() -> Path:
    """The starter model's GGUF: EDGESPEC_TEST_MODEL, or edgespec's own copy, fetched if it is not there yet."""
    given = os.environ.get("EDGESPEC_TEST_MODEL")
    if given:
        return Path(given)
    return ensure_model("smollm2-135m", offline=False, console=Console(stderr=True)).path
