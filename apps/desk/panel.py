"""Beside the chat: what came of the drafts of an answer, and why. Shows a turn, changes none."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFormLayout, QFrame, QLabel, QPlainTextEdit, QScrollArea, QVBoxLayout, QWidget

from edgespec import Notice

from .bars import DepthBars
from .figures import Figure, bars, figures
from .legend import Legend
from .treeview import TreeView
from .turn import Drafted, Turn

NO_WHY = "What came of the drafts, and what kept it from more, is said after an answer."
WHY_LINES = 4
# Figures and bars side by side with their words.
LEAST_WIDTH = 260


class Panel(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self.figures = Figures()
        self.legend = Legend()
        self.bars = DepthBars()
        self.tree = TreeView()
        self.why = _words()
        self._turn: Turn | None = None
        self._pointed: Drafted | None = None
        scroll = QScrollArea()
        scroll.setWidget(self.tree)
        scroll.setWidgetResizable(True)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # the tree itself has it
        scroll.setMinimumHeight(120)
        self.setMinimumWidth(LEAST_WIDTH)
        layout = QVBoxLayout(self)
        self._tree_title = _title("Last draft")
        for widget in (_title("This answer"), self.figures, self.legend, _title("Acceptance by depth"), self.bars):
            layout.addWidget(widget)
        layout.addWidget(self._tree_title)
        layout.addWidget(scroll, 3)
        layout.addWidget(_title("Why"))
        layout.addWidget(self.why, 2)

    def refresh(self, turn: Turn | None, notices: Sequence[Notice]) -> None:
        if turn is not self._turn:
            self._turn, self._pointed = turn, None
        self.figures.show_figures(figures(turn))
        self.legend.show_sources(turn.sources if turn else ())
        self.bars.show_bars(bars(turn.tallied()) if turn else ())
        self._show_tree()
        told = [*notices, *(turn.completion.notices if turn and turn.completion else ())]
        said = turn.why if turn and turn.completion else (NO_WHY,)
        text = "\n\n".join([*said, *dict.fromkeys(_sentence(notice.message) for notice in told)])
        if text != self.why.toPlainText():
            self.why.setPlainText(text)

    def point_at(self, drafted: Drafted | None) -> None:
        """Show this round's tree instead of the last one's; None goes back to that."""
        self._pointed = drafted
        self._show_tree()

    def _show_tree(self) -> None:
        title = "Draft of the word pointed at" if self._pointed else "Last draft"
        self._tree_title.setText(title)
        self.tree.show_round(self._pointed or (self._turn.last_draft() if self._turn else None))


class Figures(QFrame):
    """Names and values in two columns, one stop of the Tab key."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: tuple[Figure, ...] = ()
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAccessibleName("Figures of this answer")
        form = QFormLayout(self)
        form.setContentsMargins(0, 0, 0, 0)
        form.setVerticalSpacing(2)
        self._values: list[QLabel] = []
        for one in figures(None):
            value = QLabel()
            value.setTextFormat(Qt.TextFormat.PlainText)
            form.addRow(one.name, value)
            self._values.append(value)

    def show_figures(self, shown: tuple[Figure, ...]) -> None:
        if shown == self.shown:
            return
        self.shown = shown
        for one, value in zip(shown, self._values, strict=True):
            value.setText(one.value)
        self.setAccessibleDescription("; ".join(f"{one.name}: {one.value}" for one in shown))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def _title(text: str) -> QLabel:
    label = QLabel(text)
    font = label.font()
    font.setBold(True)
    label.setFont(font)
    return label


def _words() -> QPlainTextEdit:
    text = QPlainTextEdit(NO_WHY)
    text.setReadOnly(True)
    keyboard = Qt.TextInteractionFlag.TextSelectableByKeyboard
    text.setTextInteractionFlags(keyboard | Qt.TextInteractionFlag.TextSelectableByMouse)
    text.setTabChangesFocus(True)
    text.setAccessibleName("Why")
    text.setAccessibleDescription("What keeps the model from drafting more, and what it had to say.")
    text.setMinimumHeight(WHY_LINES * text.fontMetrics().lineSpacing())
    return text
