"""The chat as text that grows: guesses that were accepted stand on their drafter's tint. Shows turns, changes none.

Contract: `refresh` adds what is new of the turns shown before, and rebuilds only when another chat, fewer turns or
another palette are to be shown.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QFont, QHelpEvent, QMouseEvent, QTextCharFormat, QTextCursor, QTextFormat
from PySide6.QtWidgets import QTextEdit, QToolTip

from .chat import Chat
from .paint import faint, ground
from .turn import Span, Turn

# Of a character: the turn and the token it belongs to, counted from 1; 0 is none.
TURN = int(QTextFormat.Property.UserProperty)
TOKEN = TURN + 1
EMPTY = "Nothing was said yet."


class Transcript(QTextEdit):
    """pointed: gets a turn and one of its tokens, whenever mouse or text cursor are at one; -1 and -1 for none."""

    def __init__(self, pointed: Callable[[int, int], None]) -> None:
        super().__init__()
        self._pointed = pointed
        self.setReadOnly(True)
        keyboard = Qt.TextInteractionFlag.TextSelectableByKeyboard
        self.setTextInteractionFlags(keyboard | Qt.TextInteractionFlag.TextSelectableByMouse)
        self.setTabChangesFocus(True)
        self.setMouseTracking(True)
        self.viewport().setMouseTracking(True)
        self.setPlaceholderText(EMPTY)
        self.setAccessibleName("Conversation")
        self.setAccessibleDescription("Questions and answers; move the cursor to a word to see the draft it came from.")
        self.cursorPositionChanged.connect(self._cursor_moved)
        self._chat: Chat | None = None
        self._shown: list[_Shown] = []

    def refresh(self, chat: Chat) -> None:
        kept = [one.turn for one in self._shown] == chat.turns[: len(self._shown)]  # the same ones: turns have no equal
        if chat is not self._chat or not kept:
            self._chat, self._shown = chat, []
            self.clear()
        bar = self.verticalScrollBar()
        follows = bar.value() >= bar.maximum() - self.fontMetrics().lineSpacing()
        for number, turn in enumerate(chat.turns):
            self._refresh_turn(number, turn)
        if follows:
            bar.setValue(bar.maximum())

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802  # Qt's name
        super().changeEvent(event)
        if event.type() is QEvent.Type.PaletteChange and self._chat is not None:
            chat, self._chat = self._chat, None
            self.refresh(chat)

    # -- pointing ---------------------------------------------------------------------------------------------------

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802  # Qt's name
        super().mouseMoveEvent(event)
        self._pointed(*self.token_at(event.position().toPoint()))

    def leaveEvent(self, event: QEvent) -> None:  # noqa: N802  # Qt's name
        super().leaveEvent(event)
        self._pointed(-1, -1)

    def viewportEvent(self, event: QEvent) -> bool:  # noqa: N802  # Qt's name
        if isinstance(event, QHelpEvent) and event.type() is QEvent.Type.ToolTip:
            text = self.word_about(*self.token_at(event.pos()))
            QToolTip.showText(event.globalPos(), text, self)  # an empty one hides it
            return True
        return super().viewportEvent(event)

    def token_at(self, point: QPoint) -> tuple[int, int]:
        """Turn and token under a point of the viewport, (-1, -1) for none."""
        bars = QPoint(self.horizontalScrollBar().value(), self.verticalScrollBar().value())
        at = self.document().documentLayout().hitTest((point + bars).toPointF(), Qt.HitTestAccuracy.ExactHit)
        return self._token_before(at + 1) if at >= 0 else (-1, -1)

    def word_about(self, turn: int, token: int) -> str:
        """What a token's tooltip says; "" where there is none."""
        if self._chat is None or not 0 <= turn < len(self._chat.turns):
            return ""
        one = self._chat.turns[turn]
        span = next((span for span in reversed(one.spans) if span.token <= token), None)
        drafted = one.round_at(token)
        if span is None or drafted is None:
            return ""
        report = drafted.report
        whose = f"guessed by {span.source}" if span.source else "said by the model itself"
        return f"{whose}; its pass had {report.n_accepted} of {report.n_drafted} guesses accepted"

    def _cursor_moved(self) -> None:
        self._pointed(*(self._token_before(self.textCursor().position()) if self.hasFocus() else (-1, -1)))

    def _token_before(self, position: int) -> tuple[int, int]:
        if position > self.document().characterCount() - 1:
            return -1, -1
        cursor = QTextCursor(self.document())
        cursor.setPosition(position)
        kind = cursor.charFormat()
        return kind.intProperty(TURN) - 1, kind.intProperty(TOKEN) - 1

    # -- writing ----------------------------------------------------------------------------------------------------

    def _refresh_turn(self, number: int, turn: Turn) -> None:
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        if number == len(self._shown):
            self._shown.append(_Shown(turn))
            self._begin(cursor, number, turn)
        shown = self._shown[number]
        for span in turn.spans[shown.n_spans :]:
            cursor.insertText(span.text, self._format_of(number, span))
        shown.n_spans = len(turn.spans)
        if not turn.running and not shown.ended:
            shown.ended = True
            end = turn.error or ("stopped" if turn.stopped else "")
            if end:
                cursor.insertText(f" [{end}]", self._quiet())

    def _begin(self, cursor: QTextCursor, number: int, turn: Turn) -> None:
        if number:
            cursor.insertText("\n\n", QTextCharFormat())
        cursor.insertText("You\n", self._head())
        cursor.insertText(f"{turn.question}\n\n", QTextCharFormat())
        cursor.insertText(f"{turn.model or 'Model'}\n", self._head())

    def _format_of(self, number: int, span: Span) -> QTextCharFormat:
        kind = QTextCharFormat()
        kind.setProperty(TURN, number + 1)
        kind.setProperty(TOKEN, span.token + 1)
        if span.source:
            kind.setBackground(ground(span.source, self.palette()))
        return kind

    def _head(self) -> QTextCharFormat:
        kind = QTextCharFormat()
        kind.setFontWeight(QFont.Weight.Bold)
        return kind

    def _quiet(self) -> QTextCharFormat:
        kind = QTextCharFormat()
        kind.setForeground(faint(self.palette()))
        return kind


class _Shown:
    """How much of a turn is in the document."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.n_spans = 0
        self.ended = False
