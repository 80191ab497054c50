"""An error as one sentence with its remedy, until it is dismissed. Screen readers hear it at once."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible, QAccessibleEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QStyle


class Banner(QFrame):
    def __init__(self, dismissed: Callable[[], None]) -> None:
        super().__init__()
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self.label = QLabel()
        self.label.setTextFormat(Qt.TextFormat.PlainText)
        self.label.setWordWrap(True)
        self.label.setAccessibleName("Error")
        self.button = QPushButton("&Dismiss")
        self.button.setAccessibleName("Dismiss the error")
        self.button.clicked.connect(lambda: dismissed())
        sign = QLabel()
        size = self.style().pixelMetric(QStyle.PixelMetric.PM_SmallIconSize)
        sign.setPixmap(self.style().standardIcon(QStyle.StandardPixmap.SP_MessageBoxWarning).pixmap(size))
        layout = QHBoxLayout(self)
        layout.addWidget(sign)
        layout.addWidget(self.label, 1)
        layout.addWidget(self.button)
        self.setVisible(False)

    def show_error(self, sentence: str) -> None:
        if sentence == self.label.text():
            return
        self.label.setText(sentence)
        self.label.setAccessibleDescription(sentence)
        self.setVisible(bool(sentence))
        if sentence:
            QAccessible.updateAccessibility(QAccessibleEvent(self.label, QAccessible.Event.Alert))
