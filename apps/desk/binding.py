"""Whether a window can be opened at all: a PySide6 that can be trusted with this Python, and a display."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping

from edgespec.errors import BadInput, MissingExtra

N_CALLS = 1000
# Any of them says where windows go; without one Qt ends the whole process on these systems.
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
WITHOUT_ONE_OF_THEIR_OWN = ("linux", "freebsd")


def require_display(environment: Mapping[str, str] = os.environ, system: str = sys.platform) -> None:
    """Raises BadInput where there is none. system: as in sys.platform."""
    if system.startswith(WITHOUT_ONE_OF_THEIR_OWN) and not any(environment.get(name) for name in DISPLAYS):
        raise BadInput("cannot open a window", "there is no display", "use 'edgespec chat' here, or set DISPLAY")


def require_binding() -> None:
    """Raises MissingExtra for a build that takes None to be immortal where it is not: every call of it loses a
    reference, and after some thousands Python aborts. PySide6 6.12 is one, before Python 3.12.
    """
    import PySide6
    from PySide6.QtCore import QPoint

    point, before = QPoint(), sys.getrefcount(None)
    for _ in range(N_CALLS):
        point.setX(1)  # returns None
    if before - sys.getrefcount(None) > N_CALLS // 2:
        raise MissingExtra(
            f"PySide6 {PySide6.__version__}",
            f"with Python {platform.python_version()} it would end the program after some seconds",
            "run: pip install 'pyside6-essentials<6.12', or use Python 3.12 or later",
        )
