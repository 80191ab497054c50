"""Below everything: which model it is, or what is being done with it and how far that is."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QProgressBar, QPushButton, QStatusBar

from .keeper import Keeper, Phase

NO_MODEL = "No model is open: choose one with Ctrl+O."
STEPS = 1000


class StatusLine(QStatusBar):
    def __init__(self, cancelled: Callable[[], None]) -> None:
        super().__init__()
        self.label = QLabel(NO_MODEL)
        self.label.setTextFormat(Qt.TextFormat.PlainText)
        self.label.setAccessibleName("State of the model")
        self.bar = QProgressBar()
        self.bar.setAccessibleName("Progress")
        self.bar.setMaximumWidth(220)
        self.button = QPushButton("Ca&ncel")
        self.button.setAccessibleName("Cancel loading, downloading or tuning")
        self.button.clicked.connect(lambda: cancelled())
        self.addWidget(self.label, 1)
        self.addPermanentWidget(self.bar)
        self.addPermanentWidget(self.button)

    def refresh(self, keeper: Keeper) -> None:
        progress = keeper.progress
        text = progress.doing if progress else keeper.loaded.name if keeper.loaded else NO_MODEL
        if text != self.label.text():
            self.label.setText(text)
            self.label.setAccessibleDescription(text)
        done = progress.done if progress else None
        self.bar.setRange(0, 0 if done is None else STEPS)
        self.bar.setValue(0 if done is None else round(done * STEPS))
        self.bar.setVisible(progress is not None)
        self.button.setVisible(keeper.phase is Phase.BUSY)
