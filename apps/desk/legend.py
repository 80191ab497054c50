"""Which tint is whose: one swatch with a name for every drafter that had a guess accepted."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QHBoxLayout, QLabel, QWidget

from .paint import ground


class Legend(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self.sources: tuple[str, ...] = ()
        self._layout = QHBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self.setVisible(False)

    def show_sources(self, sources: tuple[str, ...]) -> None:
        if sources == self.sources:
            return
        self.sources = sources
        self._rebuild()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802  # Qt's name
        super().changeEvent(event)
        if event.type() is QEvent.Type.PaletteChange:
            self._rebuild()

    def _rebuild(self) -> None:
        while (item := self._layout.takeAt(0)) is not None:
            widget = item.widget()
            if widget is not None:
                widget.deleteLater()
        for source in self.sources:
            swatch = QLabel(f" {source} ")
            swatch.setTextFormat(Qt.TextFormat.PlainText)
            swatch.setAutoFillBackground(True)
            palette = self.palette()
            palette.setColor(QPalette.ColorRole.Window, ground(source, palette))
            swatch.setPalette(palette)
            swatch.setToolTip(f"Tokens that {source} guessed and the model accepted")
            self._layout.addWidget(swatch)
        self._layout.addStretch(1)
        self.setVisible(bool(self.sources))
