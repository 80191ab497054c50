"""The chats by their first question, the running ones marked."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import QListWidget

from .chat import Chat


class ChatList(QListWidget):
    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Chats")
        self.setAccessibleDescription("Up and down go from chat to chat.")
        self.setMinimumWidth(110)
        self._shown: list[str] = []

    def refresh(self, chats: Sequence[Chat], current: Chat) -> None:
        titles = [f"{chat.title} …" if chat.running else chat.title for chat in chats]
        self.blockSignals(True)  # it is told what is current, it does not tell
        if titles != self._shown:
            self._shown = titles
            self.clear()
            self.addItems(titles)
        self.setCurrentRow(list(chats).index(current))
        self.blockSignals(False)
