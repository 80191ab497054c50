"""A machine that lacks something runs the other tests, and says what it left out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import needs

ROOT = Path(__file__).parent.parent


def run(path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """pytest on a quick file and one that needs a browser, with programs looked for in `path` only."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--collect-only"]
    return subprocess.run(
        [*command, "tests/test_tally.py", "tests/apps/page"],
        cwd=ROOT,
        env={**os.environ, "PATH": str(path), "EDGESPEC_ALL_TESTS": "", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_a_browser_its_tests_are_left_out_and_named(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert "test_tally.py" in done.stdout
    assert "test_page" not in done.stdout.replace("test_page_picture.py", "")
    assert (
        "left out: tests/apps/page and tests/tools/test_page_picture.py cannot run: they use a browser" in done.stdout
    )


def test_where_all_are_wanted_that_is_an_error(tmp_path: Path) -> None:
    done = run(tmp_path, EDGESPEC_ALL_TESTS="1")
    assert done.returncode == 4
    assert "EDGESPEC_ALL_TESTS is set, but tests/live/test_terminal.py cannot run" in done.stderr


def test_without_qt_the_sentence_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PySide6.QtWidgets", None)
    assert needs.qt_objection().startswith("Qt does not load (")
