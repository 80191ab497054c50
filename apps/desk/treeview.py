"""A round's draft as a tree: nodes with their tokens, those that were accepted in their drafter's colour."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QHelpEvent, QPainter, QPaintEvent, QPalette, QPen
from PySide6.QtWidgets import QToolTip, QWidget

from .paint import faint, ground, mixed
from .treeshape import LABEL_LENGTH, Node, nodes_of, spoken
from .turn import Drafted

EMPTY = "A tree appears with the first draft."
ROOT = "last token"
MARGIN, GAP = 6, 10


class TreeView(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self.drafted: Drafted | None = None
        self.nodes: tuple[Node, ...] = ()
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAccessibleName("Draft tree")
        self.setAccessibleDescription(EMPTY)

    def show_round(self, drafted: Drafted | None) -> None:
        if drafted is self.drafted:
            return
        self.drafted = drafted
        self.nodes = nodes_of(drafted) if drafted is not None else ()
        self.setAccessibleDescription(spoken(drafted) if drafted is not None else EMPTY)
        self.setMinimumSize(self.sizeHint())
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:  # noqa: N802  # Qt's name
        if not self.nodes:
            return QSize(self.fontMetrics().horizontalAdvance(EMPTY) // 2, 2 * self._step().height())
        columns = 1 + max(node.column for node in self.nodes)
        rows = 1 + max(node.depth for node in self.nodes)
        step = self._step()
        return QSize(2 * MARGIN + columns * step.width() - GAP, 2 * MARGIN + rows * step.height() - GAP)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802  # Qt's name
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(self.rect(), self.palette().color(QPalette.ColorRole.Base))
        if not self.nodes:
            painter.setPen(faint(self.palette()))
            flags = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap
            painter.drawText(self.rect().adjusted(MARGIN, 0, -MARGIN, 0), int(flags), EMPTY)
        else:
            self._paint_tree(painter)
        if self.hasFocus():
            painter.setPen(self.palette().color(QPalette.ColorRole.Highlight))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))
        painter.end()

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() is QEvent.Type.ToolTip:
            self._tell(event)
            return True
        return super().event(event)

    def node_at(self, point: QPointF) -> Node | None:
        return next((node for node in self.nodes if self._box(node.depth, node.column).contains(point)), None)

    def _tell(self, event: QHelpEvent) -> None:
        node = self.node_at(QPointF(event.pos()))
        if node is None:
            QToolTip.hideText()
            return
        verdict = "accepted" if node.accepted else "not accepted"
        QToolTip.showText(event.globalPos(), f"{node.text}: {node.depth} ahead, {verdict}", self)

    # -- painting -------------------------------------------------------------------------------------------------

    def _step(self) -> QSize:
        """From one node to the next, to the right and down."""
        metrics = self.fontMetrics()
        widest = max([ROOT, *(node.text for node in self.nodes)], key=len)[:LABEL_LENGTH]
        return QSize(metrics.horizontalAdvance(widest) + 14 + GAP, metrics.height() + 6 + GAP)

    def _box(self, depth: int, column: int) -> QRectF:
        step = self._step()
        place = QPointF(MARGIN + column * step.width(), MARGIN + depth * step.height())
        return QRectF(place.x(), place.y(), step.width() - GAP, step.height() - GAP)

    def _paint_tree(self, painter: QPainter) -> None:
        for node in self.nodes:
            self._paint_edge(painter, node)
        self._paint_node(painter, self._box(0, 0), ROOT, accepted=False)
        for node in self.nodes:
            self._paint_node(painter, self._box(node.depth, node.column), node.text, node.accepted)

    def _paint_edge(self, painter: QPainter, node: Node) -> None:
        parent = self.nodes[node.parent] if node.parent >= 0 else None
        above = self._box(parent.depth, parent.column) if parent else self._box(0, 0)
        below = self._box(node.depth, node.column)
        colour = self.palette().color(QPalette.ColorRole.Text) if node.accepted else faint(self.palette())
        painter.setPen(QPen(colour, 2.0 if node.accepted else 1.0))
        painter.drawLine(QPointF(above.center().x(), above.bottom()), QPointF(below.center().x(), below.top()))

    def _paint_node(self, painter: QPainter, box: QRectF, text: str, accepted: bool) -> None:
        palette = self.palette()
        source = self.drafted.source.partition("+")[0] if self.drafted else ""
        base, ink = palette.color(QPalette.ColorRole.Base), palette.color(QPalette.ColorRole.Text)
        painter.setPen(QPen(ink if accepted else faint(palette), 1.5 if accepted else 1.0))
        painter.setBrush(ground(source, palette) if accepted else mixed(base, ink, 0.04))
        painter.drawRoundedRect(box, 5, 5)
        painter.setPen(ink if accepted else faint(palette))
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)
