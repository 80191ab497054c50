"""Hypothesis without its clock: a busy machine must not fail a test. Ctrl-C as in a terminal, also for a run in the
background, where shells have it ignored. And tests that need more than Python, only where that is there.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import settings

from tests.needs import ALL_TESTS, Need, all_are_wanted, needs, qt_objection

settings.register_profile("edgespec", deadline=None)
settings.load_profile("edgespec")
signal.signal(signal.SIGINT, signal.default_int_handler)

# The plugin loads Qt when pytest starts, and without Qt's libraries nothing at all would run.
pytest_plugins = [] if qt_objection() else ["pytestqt.plugin"]

HERE = Path(__file__).parent
UNMET = [one for one in needs() if one.missing]


def pytest_configure() -> None:
    if UNMET and all_are_wanted():
        raise pytest.UsageError("; ".join(f"{ALL_TESTS} is set, but {said(one)}" for one in UNMET))


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    below = collection_path.relative_to(HERE) if collection_path.is_relative_to(HERE) else None
    left_out = below is not None and any(below.is_relative_to(place) for one in UNMET for place in one.places)
    return True if left_out else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for one in UNMET:
        terminalreporter.write_line(f"left out: {said(one)}")


def said(need: Need) -> str:
    return f"tests/{' and tests/'.join(need.places)} cannot run: {need.missing}"
