from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from apps.desk.banner import Banner


def test_a_sentence_stays_until_it_is_dismissed(qtbot: QtBot) -> None:
    dismissed: list[bool] = []
    banner = Banner(lambda: dismissed.append(True))
    qtbot.addWidget(banner)
    assert banner.isHidden()
    banner.show_error("a file: <b>gone</b>; name another.")
    assert not banner.isHidden()
    assert banner.label.text() == "a file: <b>gone</b>; name another."
    assert banner.label.textFormat() is Qt.TextFormat.PlainText
    banner.show()
    QTest.mouseClick(banner.button, Qt.MouseButton.LeftButton)
    assert dismissed == [True]
    banner.show_error("")
    assert banner.isHidden()
