from __future__ import annotations

import sys

import pytest

from apps.desk import binding
from edgespec.errors import BadInput, MissingExtra


def test_the_one_that_is_installed_can_be_trusted() -> None:
    binding.require_binding()


@pytest.mark.parametrize(
    ("environment", "system", "fits"),
    [
        ({}, "linux", False),
        ({"DISPLAY": ""}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "freebsd14", True),
        ({"QT_QPA_PLATFORM": "offscreen"}, "linux", True),
        ({}, "darwin", True),
        ({}, "win32", True),
    ],
)
def test_a_display_is_needed_where_systems_may_have_none(environment: dict[str, str], system: str, fits: bool) -> None:
    if fits:
        binding.require_display(environment, system)
        return
    with pytest.raises(BadInput, match="there is no display"):
        binding.require_display(environment, system)


def test_one_that_loses_references_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter([20_000, 19_000])
    monkeypatch.setattr(sys, "getrefcount", lambda _object: next(counts))
    with pytest.raises(MissingExtra, match="pyside6-essentials<6"):
        binding.require_binding()
