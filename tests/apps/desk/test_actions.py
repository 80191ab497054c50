from __future__ import annotations

from pytestqt.qtbot import QtBot

from apps.desk.desk import Desk
from apps.desk.window import Window
from tests.apps.desk.toy_desk import LONG, Toy
from tests.apps.desk.toy_window import asleep, toy_window
from tests.engine.toy_engine import Gate


def enabled(window: Window) -> set[str]:
    return {name for name, action in window.commands.by_name.items() if action.isEnabled()}


def test_only_what_can_be_done_can_be_chosen(qtbot: QtBot) -> None:
    bare = Window(Desk(Toy().means()))
    qtbot.addWidget(bare)
    always = {"new", "next", "previous", "quit", "settings", "larger", "smaller"}
    assert enabled(bare) == always | {"close", "model", "file"}
    with toy_window(qtbot, options=LONG) as (window, toy):
        assert enabled(window) == always | {"close", "model", "file", "tune", "send"}
        gate = Gate(toy.target, lambda one: one.width > 0)
        window.ask("Why?")
        gate.wait_until_reached()
        assert enabled(window) == always | {"model", "file", "tune", "stop"}
        gate.open()
        window.stop()
        asleep(qtbot, window)
        assert enabled(window) == always | {"close", "model", "file", "tune", "send", "undo", "again"}
        window.tune()
        assert "cancel" in enabled(window)
        assert "model" not in enabled(window)
        asleep(qtbot, window)
