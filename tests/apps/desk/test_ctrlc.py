from __future__ import annotations

import signal

from pytestqt.qtbot import QtBot

from apps.desk.ctrlc import CtrlC


def test_ctrl_c_is_heard_and_given_back(qtbot: QtBot) -> None:
    before = signal.getsignal(signal.SIGINT)
    pressed: list[bool] = []
    with CtrlC(lambda: pressed.append(True)):
        signal.raise_signal(signal.SIGINT)
        qtbot.waitUntil(lambda: len(pressed) == 1)
        signal.raise_signal(signal.SIGINT)
        qtbot.waitUntil(lambda: len(pressed) == 2)
    assert signal.getsignal(signal.SIGINT) is before
    wakes = signal.set_wakeup_fd(-1)
    assert wakes == -1
