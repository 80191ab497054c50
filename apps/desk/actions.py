"""What the window can do, each with its place in the menu and its keys; the most used ones in the tool bar too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtGui import QAction, QKeySequence

from .desk import Desk

if TYPE_CHECKING:
    from .window import Window


@dataclass(frozen=True, slots=True)
class Entry:
    """menu: where it is listed. in_bar: it has a button in the tool bar, too."""

    menu: str
    text: str
    keys: str
    tip: str
    act: Callable[[Window], None]
    in_bar: bool = False


ENTRIES: dict[str, Entry] = {
    "new": Entry("&Chat", "&New chat", "Ctrl+N", "Begin another chat", lambda w: w.new_chat(), True),
    "close": Entry("&Chat", "&Close chat", "Ctrl+W", "Drop this chat", lambda w: w.close_chat()),
    "next": Entry("&Chat", "Ne&xt chat", "Ctrl+PgDown", "Go to the next chat", lambda w: w.turn_chat(1)),
    "previous": Entry("&Chat", "&Previous chat", "Ctrl+PgUp", "Go to the chat before", lambda w: w.turn_chat(-1)),
    "quit": Entry("&Chat", "&Quit", "Ctrl+Q", "Close the window", lambda w: w.leave()),
    "send": Entry("&Answer", "&Send", "Ctrl+Return", "Ask what was typed", lambda w: w.composer.submit(), True),
    "stop": Entry("&Answer", "S&top", "Esc", "Stop the answer", lambda w: w.stop(), True),
    "undo": Entry("&Answer", "&Undo", "Ctrl+U", "Take back the last question and answer", lambda w: w.undo(), True),
    "again": Entry(
        "&Answer", "&Regenerate", "Ctrl+R", "Answer again, with the next seed", lambda w: w.regenerate(), True
    ),
    "settings": Entry("&Answer", "S&ettings…", "Ctrl+,", "How answers are made", lambda w: w.change_settings(), True),
    "model": Entry("&Model", "&Choose…", "Ctrl+O", "Open or download a model", lambda w: w.choose_model(), True),
    "file": Entry("&Model", "Open &file…", "Ctrl+Shift+O", "Open a model's file", lambda w: w.choose_file()),
    "tune": Entry("&Model", "&Tune", "Ctrl+T", "Measure the model on this machine", lambda w: w.tune()),
    "cancel": Entry("&Model", "C&ancel", "Ctrl+.", "Give up loading, downloading or tuning", lambda w: w.cancel()),
    "larger": Entry("&View", "&Larger text", "Ctrl++", "Make text larger", lambda w: w.zoom(1)),
    "smaller": Entry("&View", "&Smaller text", "Ctrl+-", "Make text smaller", lambda w: w.zoom(-1)),
}


class Actions:
    def __init__(self, window: Window) -> None:
        self.by_name: dict[str, QAction] = {}
        bar = window.addToolBar("Tools")
        bar.setMovable(False)
        menus = {name: window.menuBar().addMenu(name) for name in dict.fromkeys(e.menu for e in ENTRIES.values())}
        for name, entry in ENTRIES.items():
            action = QAction(entry.text, window)
            action.setShortcut(QKeySequence(entry.keys))
            action.setToolTip(f"{entry.tip} ({entry.keys})")
            action.setStatusTip(entry.tip)
            action.triggered.connect(_calling(entry, window))
            menus[entry.menu].addAction(action)
            if entry.in_bar:
                bar.addAction(action)
            self.by_name[name] = action

    def refresh(self, desk: Desk) -> None:
        """Only what can be done now can be chosen."""
        keeper = desk.keeper
        allowed = {
            "send": desk.can_ask,
            "stop": desk.can_stop,
            "undo": desk.can_undo,
            "again": desk.can_regenerate,
            "close": not desk.can_stop,
            "model": not keeper.busy,
            "file": not keeper.busy,
            "tune": keeper.ready,
            "cancel": keeper.busy,
        }
        for name, is_allowed in allowed.items():
            self.by_name[name].setEnabled(is_allowed)


def _calling(entry: Entry, window: Window) -> Callable[[], None]:
    return lambda: entry.act(window)
