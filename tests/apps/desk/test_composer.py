from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from apps.desk.composer import Composer


def test_return_asks_and_shift_return_begins_a_line(qtbot: QtBot) -> None:
    asked: list[str] = []
    composer = Composer(asked.append)
    qtbot.addWidget(composer)
    composer.show()
    QTest.keyClicks(composer, "one")
    QTest.keyClick(composer, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    QTest.keyClicks(composer, "two")
    assert asked == []
    QTest.keyClick(composer, Qt.Key.Key_Enter)
    assert asked == ["one\ntwo"]
    assert composer.toPlainText() == "one\ntwo"  # who takes the question clears it


def test_it_grows_with_its_font(qtbot: QtBot) -> None:
    composer = Composer(lambda _text: None)
    qtbot.addWidget(composer)
    before = composer.sizeHint().height()
    font = composer.font()
    font.setPointSizeF(2 * font.pointSizeF())
    composer.setFont(font)
    assert composer.minimumSizeHint().height() > before
