"""Where a question is typed: Return asks, Shift and Return begin a new line, Tab goes on to the next widget."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QPlainTextEdit

N_LINES = 3


class Composer(QPlainTextEdit):
    def __init__(self, submitted: Callable[[str], None]) -> None:
        super().__init__()
        self._submitted = submitted
        self.setTabChangesFocus(True)
        self.setPlaceholderText("Ask something. Return sends, Shift+Return begins a new line.")
        self.setAccessibleName("Question")
        self.setAccessibleDescription("Return sends, Shift and Return begin a new line.")

    def submit(self) -> None:
        self._submitted(self.toPlainText())

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802  # Qt's name
        is_return = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if is_return and not event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.submit()
            return
        super().keyPressEvent(event)

    def sizeHint(self) -> QSize:  # noqa: N802  # Qt's name
        return QSize(super().sizeHint().width(), N_LINES * self.fontMetrics().lineSpacing() + 16)

    def minimumSizeHint(self) -> QSize:  # noqa: N802  # Qt's name
        return self.sizeHint()
