"""The window over a toy engine: what is typed, clicked and shown."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QToolBar, QWidget
from pytestqt.qtbot import QtBot

from apps.desk.chooser import Chooser
from apps.desk.desk import Desk
from apps.desk.figures import bars, figures
from apps.desk.settings import SettingsDialog
from apps.desk.window import Window
from tests.apps.desk.toy_desk import LONG, SHORT, Toy, own_threads
from tests.apps.desk.toy_window import DEADLINE_MILLISECONDS, ask, asleep, focusable, gone, name_of, toy_window
from tests.engine.toy_engine import Gate


def test_streaming_shows_the_whole_answer(qtbot: QtBot) -> None:
    with toy_window(qtbot) as (window, toy):
        ask(qtbot, window)
        turn = window.desk.current.turns[0]
        assert turn.completion is not None
        assert window.transcript.toPlainText() == f"You\nWhy?\n\ntoy\n{turn.completion.text}"
        assert window.composer.toPlainText() == ""
        assert threading.get_ident() not in toy.idents  # no call to the engine was made here


def test_an_answer_is_shown_while_it_is_made(qtbot: QtBot) -> None:
    with toy_window(qtbot, options=LONG) as (window, toy):
        gate = Gate(toy.target, lambda one: one.width > 0 and len(toy.target.passes) > 12)
        window.ask("Why?")
        gate.wait_until_reached()
        turn = window.desk.current.turns[0]
        qtbot.waitUntil(lambda: turn.n_tokens > 0, timeout=DEADLINE_MILLISECONDS)
        assert turn.running
        assert window.transcript.toPlainText().endswith(f"toy\n{turn.text}")
        # The engine stands still; the window does not.
        QTest.keyClicks(window.composer, "and")
        assert window.composer.toPlainText() == "and"
        gate.open()


def test_the_panel_says_what_the_tally_says(qtbot: QtBot) -> None:
    with toy_window(qtbot) as (window, _toy):
        ask(qtbot, window)
        turn = window.desk.current.turns[0]
        tallied = turn.tallied()
        assert turn.completion is not None
        assert (tallied.n_passes, tallied.n_accepted) == (
            turn.completion.timings.passes,
            turn.completion.timings.draft_n_accepted,
        )
        assert window.panel.figures.shown == figures(turn)
        assert window.panel.bars.bars == bars(tallied) != ()
        assert window.panel.tree.drafted is turn.last_draft() is not None
        assert window.panel.legend.sources == turn.sources
        assert window.panel.why.toPlainText().startswith(turn.why[0])


@pytest.mark.parametrize("way", ["escape", "button"])
def test_stop_ends_an_answer_within_one_pass(qtbot: QtBot, way: str) -> None:
    with toy_window(qtbot, options=LONG) as (window, toy):
        gate = Gate(toy.target, lambda one: one.width > 0 and len(toy.target.passes) > 4)
        window.ask("Why?")
        gate.wait_until_reached()
        n_passes = len(toy.target.passes)
        if way == "escape":
            QTest.keyClick(window.composer, Qt.Key.Key_Escape)
        else:
            bar = window.findChild(QToolBar)
            assert bar is not None
            QTest.mouseClick(bar.widgetForAction(window.commands.by_name["stop"]), Qt.MouseButton.LeftButton)
        gate.open()
        asleep(qtbot, window)
        assert len(toy.target.passes) <= n_passes + 1
        turn = window.desk.current.turns[0]
        assert turn.stopped
        assert window.transcript.toPlainText().endswith(f"{turn.text} [stopped]")


def test_a_window_closed_in_mid_answer_leaves_nothing_running(qtbot: QtBot) -> None:
    toy = Toy()
    window = Window(Desk(toy.means(), LONG))
    qtbot.addWidget(window)
    window.show()
    window.open_model("toy")
    asleep(qtbot, window)
    gate = Gate(toy.target, lambda one: one.width > 0 and len(toy.target.passes) > 4)
    window.ask("Why?")
    gate.wait_until_reached()
    n_passes = len(toy.target.passes)
    window.close()
    assert window.isVisible()  # until the pass is over; it does not wait for it
    gate.open()
    gone(qtbot, window)
    assert toy.target.closed.is_set()
    assert len(toy.target.passes) <= n_passes + 1
    assert not own_threads()
    assert threading.get_ident() not in toy.idents


def test_it_repaints_once_a_frame_while_something_runs_and_not_otherwise(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    with toy_window(qtbot) as (window, _toy):
        frames, refreshed = [0], [0]
        drain, refresh = window.desk.drain, window.refresh

        def counted_drain() -> bool:
            frames[0] += 1
            return drain()

        def counted_refresh() -> None:
            refreshed[0] += 1
            refresh()

        monkeypatch.setattr(window.desk, "drain", counted_drain)
        monkeypatch.setattr(window, "refresh", counted_refresh)
        assert not window.awake
        window.ask("Why?")
        asleep(qtbot, window)
        turn = window.desk.current.turns[0]
        assert len(turn.spans) > frames[0]  # several pieces came in one frame
        assert refreshed[0] <= frames[0] + 1
        n_frames = frames[0]
        QTest.qWait(60)
        assert frames[0] == n_frames


# -- the keyboard -------------------------------------------------------------------------------------------------


def press(window: Window, key: Qt.Key, *modifiers: Qt.KeyboardModifier) -> None:
    held = Qt.KeyboardModifier.NoModifier
    for one in modifiers:
        held |= one
    QTest.keyClick(QApplication.focusWidget() or window, key, held)


def test_everything_is_done_by_keyboard(qtbot: QtBot) -> None:
    control = Qt.KeyboardModifier.ControlModifier
    with toy_window(qtbot) as (window, toy):
        ask(qtbot, window, "First?")
        press(window, Qt.Key.Key_N, control)
        ask(qtbot, window, "Second?")
        assert [chat.title for chat in window.desk.chats] == ["First?", "Second?"]
        press(window, Qt.Key.Key_PageUp, control)
        assert window.desk.current.title == "First?"
        assert "First?" in window.transcript.toPlainText()
        press(window, Qt.Key.Key_R, control)
        asleep(qtbot, window)
        assert window.panel.why.toPlainText().endswith("makes it vary.")
        press(window, Qt.Key.Key_U, control)
        assert window.composer.toPlainText() == "First?"  # to be mended and asked again
        assert window.transcript.toPlainText() == ""
        press(window, Qt.Key.Key_T, control)
        asleep(qtbot, window)
        assert toy.tuned == ["toy"]
        press(window, Qt.Key.Key_Comma, control)
        assert isinstance(window.dialog, SettingsDialog)
        window.dialog.reject()
        press(window, Qt.Key.Key_O, control)
        assert isinstance(window.dialog, Chooser)
        asleep(qtbot, window)
        assert window.dialog.list.count() > 0
        window.dialog.reject()
        window.activateWindow()  # which a system does by itself
        qtbot.waitUntil(window.isActiveWindow, timeout=DEADLINE_MILLISECONDS)
        press(window, Qt.Key.Key_W, control)
        assert len(window.desk.chats) == 1
        size = window.font().pointSizeF()
        press(window, Qt.Key.Key_Plus, control)
        assert window.transcript.font().pointSizeF() == size + 1
        press(window, Qt.Key.Key_Minus, control)
        press(window, Qt.Key.Key_Q, control)
        gone(qtbot, window)


def test_tab_goes_through_all_that_can_be_used(qtbot: QtBot) -> None:
    with toy_window(qtbot) as (window, _toy):
        ask(qtbot, window)
        window.composer.setFocus()
        seen: list[QWidget] = []
        for _ in range(12):
            focus = QApplication.focusWidget()
            assert focus is not None
            seen.append(focus)
            QTest.keyClick(focus, Qt.Key.Key_Tab)
        panel = window.panel
        wanted = [window.composer, window.transcript, panel.figures, panel.bars, panel.tree, panel.why]
        assert seen[: len(wanted)] == wanted
        assert window.chat_list in seen
        assert seen.count(window.composer) > 1  # round and round


def test_all_that_can_have_the_focus_has_a_name(qtbot: QtBot) -> None:
    with toy_window(qtbot) as (window, _toy):
        ask(qtbot, window)
        window.desk.fail("something: went wrong; do it again.")
        window.refresh()
        nameless = [widget for widget in focusable(window) if not name_of(widget)]
        assert nameless == []
        assert {name_of(widget) for widget in focusable(window)} > {"Question", "Conversation", "Draft tree", "Chats"}
        for action in window.commands.by_name.values():
            assert action.text()
            assert not action.shortcut().isEmpty()
            assert action.toolTip()
        keys = [action.shortcut().toString() for action in window.commands.by_name.values()]
        assert len(set(keys)) == len(keys)


# -- what goes wrong ------------------------------------------------------------------------------------------------


def test_an_error_is_one_sentence_until_it_is_dismissed(qtbot: QtBot) -> None:
    with toy_window(qtbot) as (window, _toy):
        window.open_model("missing.gguf")
        asleep(qtbot, window)
        assert window.banner.isVisible()
        assert window.banner.label.text() == "model 'missing.gguf': there is none of that name; name another."
        assert "Traceback" not in window.banner.label.text()
        QTest.mouseClick(window.banner.button, Qt.MouseButton.LeftButton)
        assert not window.banner.isVisible()
        ask(qtbot, window)  # the old model is still there
        assert window.desk.current.messages()


def test_without_a_model_it_says_how_to_get_one(qtbot: QtBot) -> None:
    window = Window(Desk(Toy().means(), SHORT))
    qtbot.addWidget(window)
    window.show()
    assert "Ctrl+O" in window.status.label.text()
    assert not window.commands.by_name["send"].isEnabled()
    window.ask("Why?")
    assert not window.desk.running
    window.close()
    gone(qtbot, window)


def test_settings_hold_for_the_next_answer(qtbot: QtBot) -> None:
    with toy_window(qtbot) as (window, _toy):
        window.change_settings()
        dialog = window.dialog
        assert isinstance(dialog, SettingsDialog)
        dialog.max_tokens.setValue(5)
        dialog.draft.setCurrentText("off")
        QTest.keyClick(dialog.max_tokens, Qt.Key.Key_Return)
        assert window.desk.options == replace(window.desk.options, max_tokens=5)
        ask(qtbot, window)
        turn = window.desk.current.turns[0]
        assert turn.n_tokens == 5
        assert turn.sources == ()


def test_pointing_at_a_word_shows_the_draft_it_came_from(qtbot: QtBot) -> None:
    with toy_window(qtbot) as (window, _toy):
        ask(qtbot, window)
        turn = window.desk.current.turns[0]
        span = next(span for span in turn.spans if span.source)
        wanted = turn.round_at(span.token)
        window.transcript.setFocus()
        at = window.transcript.toPlainText().index(turn.text) + sum(
            len(one.text) for one in turn.spans[: turn.spans.index(span) + 1]
        )
        cursor = window.transcript.textCursor()
        cursor.setPosition(at)
        window.transcript.setTextCursor(cursor)
        assert window.panel.tree.drafted is wanted
        cursor.setPosition(0)
        window.transcript.setTextCursor(cursor)
        assert window.panel.tree.drafted is turn.last_draft()


def test_a_picture_of_it_can_be_taken(qtbot: QtBot) -> None:
    with toy_window(qtbot) as (window, _toy):
        ask(qtbot, window)
        picture = window.grab().toImage()
        colours = {picture.pixel(x, y) for x in range(0, picture.width(), 3) for y in range(0, picture.height(), 3)}
        assert len(colours) > 10
