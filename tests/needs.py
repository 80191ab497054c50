"""What some tests need of the machine beside a Python: a terminal, a browser, Qt's libraries, a newer Python.

Where one is missing its tests are left out and named at the end of the run, since a machine with Python and a compiler
must be able to pass the rest; with EDGESPEC_ALL_TESTS set that is an error instead, so that nothing is left out unseen.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
from dataclasses import dataclass

ALL_TESTS = "EDGESPEC_ALL_TESTS"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@dataclass(frozen=True, slots=True)
class Need:
    """places: files or folders below tests/. missing: why they cannot run, "" if they can."""

    places: tuple[str, ...]
    missing: str


def browser() -> str | None:
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def qt_objection() -> str:
    """Why Qt does not load, "" if it does."""
    try:
        importlib.import_module("PySide6.QtWidgets")
    except ImportError as error:  # of a library of the system, too
        return f"Qt does not load ({error}): on Debian install libegl1, libgl1 and libxkbcommon0"
    return ""


def needs() -> list[Need]:
    terminal = "" if shutil.which("tmux") else "they type into a real terminal: install tmux"
    page = "" if browser() else f"they use a browser: install one of {', '.join(BROWSERS)}"
    fuzzer = "" if importlib.util.find_spec("schemathesis") else "they use schemathesis, which needs Python 3.11"
    return [
        Need(("live/test_terminal.py",), terminal),
        Need(("apps/page", "tools/test_page_picture.py"), page),
        Need(("apps/desk", "tools/test_desk_picture.py"), qt_objection()),
        Need(("server/test_openapi.py",), fuzzer),
    ]


def all_are_wanted() -> bool:
    return bool(os.environ.get(ALL_TESTS))
