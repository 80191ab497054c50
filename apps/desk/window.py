"""The window: it shows a desk, forwards what its user does, and repaints once a frame while something runs.

Contract: no call waits. Closing it in mid-answer ends the answer and frees the model first; the window goes as soon as
that is done.
"""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QCloseEvent
from PySide6.QtWidgets import QMainWindow, QSplitter, QVBoxLayout, QWidget

from edgespec import GenerateOptions

from .actions import Actions
from .banner import Banner
from .chatlist import ChatList
from .chooser import Chooser, ask_for_file
from .composer import Composer
from .desk import Desk
from .listing import Offer
from .panel import Panel
from .settings import SettingsDialog
from .status import StatusLine
from .transcript import Transcript

# Screens show some 60 pictures a second; more often than that nobody sees a change.
FRAME_MILLISECONDS = 16
ZOOM_POINTS = 1.0
LEAST_POINTS, MOST_POINTS = 6.0, 40.0


class Window(QMainWindow):
    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self.desk = desk
        self.composer: Composer = Composer(self.ask)
        self.transcript = Transcript(self._point)
        self.chat_list, self.panel = ChatList(), Panel()
        self.banner, self.status = Banner(self._dismiss), StatusLine(self.cancel)
        self.commands = Actions(self)
        self.dialog: Chooser | SettingsDialog | None = None
        self._closing = False
        self._frames = QTimer(self)
        self._frames.setInterval(FRAME_MILLISECONDS)
        self._frames.timeout.connect(self._frame)
        self._lay_out()
        self.chat_list.currentRowChanged.connect(self._go_to)
        self.refresh()
        self.composer.setFocus()

    # -- showing ----------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Look for news from now on, once a frame until nothing runs any more."""
        self.refresh()
        if not self._frames.isActive():
            self._frames.start()

    @property
    def awake(self) -> bool:
        return self._frames.isActive()

    def refresh(self) -> None:
        desk = self.desk
        self.chat_list.refresh(desk.chats, desk.current)
        self.transcript.refresh(desk.current)
        self.panel.refresh(desk.current.last, desk.notices)
        self.banner.show_error(desk.error)
        self.status.refresh(desk.keeper)
        self.commands.refresh(desk)
        name = desk.keeper.loaded.name if desk.keeper.loaded else "no model"
        self.setWindowTitle(f"{name} - edgespec")

    def _frame(self) -> None:
        if self.desk.drain():
            self.refresh()
        if self._closing and self.desk.closed:
            self._frames.stop()
            self.close()
        elif not self.desk.running:
            self._frames.stop()

    # -- what the user does -----------------------------------------------------------------------------------------

    def open_model(self, model: str | None, licence_accepted: bool = False) -> None:
        self.desk.open(model, licence_accepted)
        self.wake()

    def ask(self, question: str) -> None:
        if self.desk.ask(question):
            self.composer.clear()
            self.transcript.verticalScrollBar().setValue(self.transcript.verticalScrollBar().maximum())
            self.wake()

    def stop(self) -> None:
        self.desk.stop()

    def undo(self) -> None:
        """The question comes back to where it was typed, unless something else is there."""
        question = self.desk.undo()
        if question and not self.composer.toPlainText():
            self.composer.setPlainText(question)
        self.refresh()

    def regenerate(self) -> None:
        self.desk.regenerate()
        self.wake()

    def new_chat(self) -> None:
        self.desk.new_chat()
        self.refresh()
        self.composer.setFocus()

    def close_chat(self) -> None:
        self.desk.close_chat()
        self.wake()

    def turn_chat(self, step: int) -> None:
        """To the next chat or the one before, round and round."""
        at = self.desk.chats.index(self.desk.current)
        self._go_to((at + step) % len(self.desk.chats))

    def tune(self) -> None:
        self.desk.tune()
        self.wake()

    def cancel(self) -> None:
        self.desk.keeper.cancel()

    def choose_model(self) -> None:
        self._show_dialog(Chooser(self.open_model, self))
        self.desk.list_models(self._offer)
        self.wake()

    def choose_file(self) -> None:
        ask_for_file(self, self.open_model)

    def change_settings(self) -> None:
        self._show_dialog(SettingsDialog(self.desk.options, self._take_options, self))

    def zoom(self, steps: int) -> None:
        font = self.font()
        size = min(MOST_POINTS, max(LEAST_POINTS, font.pointSizeF() + steps * ZOOM_POINTS))
        font.setPointSizeF(size)
        self.setFont(font)

    def leave(self) -> None:
        self.close()

    def closeEvent(self, event: QCloseEvent) -> None:  # noqa: N802  # Qt's name
        if self.desk.closed:
            event.accept()
            return
        event.ignore()
        self._closing = True
        self.desk.close()
        self.wake()

    def _show_dialog(self, dialog: Chooser | SettingsDialog) -> None:
        """The one before it is not needed any more."""
        if self.dialog is not None:
            self.dialog.deleteLater()
        self.dialog = dialog
        dialog.open()

    def _offer(self, offers: tuple[Offer, ...]) -> None:
        if isinstance(self.dialog, Chooser):  # it may have been left meanwhile
            self.dialog.show_offers(offers)

    def _take_options(self, options: GenerateOptions) -> None:
        self.desk.options = options
        self.refresh()

    def _go_to(self, index: int) -> None:
        if 0 <= index < len(self.desk.chats) and self.desk.chats[index] is not self.desk.current:
            self.desk.go_to(self.desk.chats[index])
            self.refresh()

    def _point(self, turn: int, token: int) -> None:
        turns = self.desk.current.turns
        known = 0 <= turn < len(turns) and token >= 0
        drafted = turns[turn].round_at(token) if known else None
        self.panel.point_at(drafted if drafted is not None and drafted.labels else None)

    # -- putting together ---------------------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        middle = QWidget()
        column = QVBoxLayout(middle)
        column.addWidget(self.transcript, 1)
        column.addWidget(self.banner)
        column.addWidget(self.composer)
        splitter = QSplitter(Qt.Orientation.Horizontal)
        for widget in (self.chat_list, middle, self.panel):
            splitter.addWidget(widget)
        splitter.setSizes([150, 560, 330])
        splitter.setStretchFactor(1, 1)
        splitter.setChildrenCollapsible(False)
        self.setCentralWidget(splitter)
        self.setStatusBar(self.status)
        self.resize(1080, 720)
        order = (self.composer, self.transcript, self.panel.figures, self.panel.bars, self.panel.tree, self.panel.why)
        for before, after in zip(order, [*order[1:], self.chat_list], strict=True):
            QWidget.setTabOrder(before, after)

    def _dismiss(self) -> None:
        self.desk.dismiss_error()
        self.refresh()
        self.composer.setFocus()
