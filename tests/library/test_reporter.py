"""The reporter that tells nobody."""

import pytest

from edgespec.library.reporter import silent_reporter


def test_the_silent_reporter_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    reporter = silent_reporter()
    reporter.announce("a line")
    reporter.progress(1, 2)
    assert capfd.readouterr() == ("", "")
