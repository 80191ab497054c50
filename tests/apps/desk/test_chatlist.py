from __future__ import annotations

from pytestqt.qtbot import QtBot

from apps.desk.chat import Chat
from apps.desk.chatlist import ChatList


def test_chats_are_listed_and_the_running_ones_marked(qtbot: QtBot) -> None:
    chats = [Chat(1), Chat(2)]
    rows: list[int] = []
    shown = ChatList()
    qtbot.addWidget(shown)
    shown.currentRowChanged.connect(rows.append)
    shown.refresh(chats, chats[1])
    turn = chats[0].begin("Why?", "toy")
    shown.refresh(chats, chats[1])
    assert [shown.item(at).text() for at in range(shown.count())] == ["Why? …", "Chat 2"]
    assert shown.currentRow() == 1
    assert rows == []  # being told is no choice of the user's
    turn.fail("it broke.")
    shown.refresh(chats, chats[0])
    assert shown.item(0).text() == "Why?"
    shown.setCurrentRow(1)
    assert rows == [1]
