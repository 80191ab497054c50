from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from apps.desk.desk import Desk
from apps.desk.keeper import Phase, Progress
from apps.desk.status import NO_MODEL, STEPS, StatusLine
from tests.apps.desk.toy_desk import Toy, toy_desk


def test_it_says_which_model_and_what_is_done(qtbot: QtBot) -> None:
    cancelled: list[bool] = []
    status = StatusLine(lambda: cancelled.append(True))
    qtbot.addWidget(status)
    status.show()
    keeper = Desk(Toy().means()).keeper
    status.refresh(keeper)
    assert status.label.text() == NO_MODEL
    assert not status.button.isVisible()
    keeper.phase, keeper.progress = Phase.BUSY, Progress("loading toy", 0.25)
    status.refresh(keeper)
    assert status.label.text() == "loading toy"
    assert (status.bar.value(), status.bar.maximum()) == (STEPS // 4, STEPS)
    QTest.mouseClick(status.button, Qt.MouseButton.LeftButton)
    assert cancelled == [True]
    keeper.progress = Progress("looking")
    status.refresh(keeper)
    assert status.bar.maximum() == 0  # how far it is nobody knows
    keeper.phase = Phase.CLOSING
    status.refresh(keeper)
    assert not status.button.isVisible()


def test_the_open_model_is_named(qtbot: QtBot) -> None:
    status = StatusLine(lambda: None)
    qtbot.addWidget(status)
    with toy_desk() as (desk, _toy):
        status.refresh(desk.keeper)
        assert status.label.text() == "toy"
        assert status.label.accessibleDescription() == "toy"
