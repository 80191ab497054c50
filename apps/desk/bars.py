"""Acceptance by depth as bars. Paints what it is given, in the palette's colours and the widget's font."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QWidget

from .figures import Bar
from .paint import faint, mixed

EMPTY = "Bars appear with the first draft."


class DepthBars(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self.bars: tuple[Bar, ...] = ()
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAccessibleName("Acceptance by depth")
        self.setAccessibleDescription(EMPTY)

    def show_bars(self, bars: tuple[Bar, ...]) -> None:
        if bars != self.bars:
            is_resized = len(bars) != len(self.bars)
            self.bars = bars
            spoken = "; ".join(bar.spoken() for bar in bars) or EMPTY
            self.setAccessibleDescription(spoken)
            self.setToolTip(spoken)
            if is_resized:
                self.updateGeometry()
            self.update()

    def sizeHint(self) -> QSize:  # noqa: N802  # Qt's name
        return QSize(12 * self.fontMetrics().averageCharWidth(), max(1, len(self.bars)) * self._row_height() + 4)

    def minimumSizeHint(self) -> QSize:  # noqa: N802  # Qt's name
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802  # Qt's name
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if not self.bars:
            painter.setPen(faint(self.palette()))
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, EMPTY)
        for row, bar in enumerate(self.bars):
            self._paint_bar(painter, row, bar)
        if self.hasFocus():
            painter.setPen(self.palette().color(QPalette.ColorRole.Highlight))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))
        painter.end()

    def _row_height(self) -> int:
        return self.fontMetrics().height() + 4

    def _paint_bar(self, painter: QPainter, row: int, bar: Bar) -> None:
        metrics, palette, height = self.fontMetrics(), self.palette(), self._row_height()
        top = 2 + row * height
        left = 4 + metrics.horizontalAdvance("88 ")
        words = f"{bar.share:.0%} of {bar.n_tried}"
        right = self.width() - metrics.horizontalAdvance("100% of 8888") - 8
        full = QRectF(left, top + 3, max(8, right - left), height - 6)
        highlight, base = palette.color(QPalette.ColorRole.Highlight), palette.color(QPalette.ColorRole.Base)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(mixed(base, palette.color(QPalette.ColorRole.Text), 0.12))
        painter.drawRoundedRect(full, 2, 2)
        painter.setBrush(highlight)
        painter.drawRoundedRect(QRectF(full.left(), full.top(), full.width() * bar.share, full.height()), 2, 2)
        painter.setPen(palette.color(QPalette.ColorRole.WindowText))
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.drawText(QRectF(4, top, left, height), middle | Qt.AlignmentFlag.AlignLeft, str(bar.depth))
        painter.drawText(
            QRectF(full.right() + 8, top, self.width(), height), middle | Qt.AlignmentFlag.AlignLeft, words
        )
