"""A window over a toy desk, and what its tests look at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible, QColor, QPalette
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from apps.desk.desk import Desk
from apps.desk.window import Window
from edgespec import GenerateOptions
from tests.apps.desk.toy_desk import DEADLINE_SECONDS, SHORT, Toy, own_threads

DEADLINE_MILLISECONDS = int(1000 * DEADLINE_SECONDS)
INSIDE = ("qt_",)  # names of widgets that are parts of Qt's own


@contextmanager
def toy_window(qtbot: QtBot, toy: Toy | None = None, options: GenerateOptions = SHORT) -> Iterator[tuple[Window, Toy]]:
    """Shown, with its model open; closed afterwards as its user would."""
    toy = toy or Toy()
    window = Window(Desk(toy.means(), options))
    qtbot.addWidget(window)
    window.show()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow, timeout=DEADLINE_MILLISECONDS)
    window.open_model("toy")
    asleep(qtbot, window)
    try:
        yield window, toy
    finally:
        window.close()
        gone(qtbot, window)
    assert not own_threads()


def asleep(qtbot: QtBot, window: Window) -> None:
    """Until nothing runs and nobody looks for news."""
    qtbot.waitUntil(lambda: not window.awake, timeout=DEADLINE_MILLISECONDS)


def gone(qtbot: QtBot, window: Window) -> None:
    qtbot.waitUntil(lambda: window.desk.closed and not window.isVisible(), timeout=DEADLINE_MILLISECONDS)


def ask(qtbot: QtBot, window: Window, question: str = "Why?") -> None:
    """By keyboard, and wait for the answer."""
    QTest.keyClicks(window.composer, question)
    QTest.keyClick(window.composer, Qt.Key.Key_Return)
    asleep(qtbot, window)


def focusable(parent: QWidget) -> list[QWidget]:
    """What the Tab key or a click can reach, parts of Qt's own composite widgets left out."""
    return [
        widget
        for widget in parent.findChildren(QWidget)
        if widget.focusPolicy() is not Qt.FocusPolicy.NoFocus
        and not widget.objectName().startswith(INSIDE)
        and widget.focusProxy() is None
    ]


def name_of(widget: QWidget) -> str:
    """What a screen reader says."""
    spoken = QAccessible.queryAccessibleInterface(widget)
    return spoken.text(QAccessible.Text.Name)


def dark() -> QPalette:
    palette = QPalette()
    for role in (QPalette.ColorRole.Base, QPalette.ColorRole.Window):
        palette.setColor(role, QColor(35, 38, 41))
    for role in (QPalette.ColorRole.Text, QPalette.ColorRole.WindowText):
        palette.setColor(role, QColor(239, 240, 241))
    return palette
