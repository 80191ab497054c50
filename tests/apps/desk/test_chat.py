from __future__ import annotations

from apps.desk.chat import Chat
from edgespec import Message
from tests.apps.desk.made import answered


def test_messages_leave_out_what_failed() -> None:
    chat = Chat(3)
    assert chat.title == "Chat 3"
    chat.turns.append(answered("First?"))
    chat.begin("Second?", "toy").fail("it broke.")
    assert chat.messages() == (Message("user", "First?"), Message("assistant", "a bc d ef"))
    assert chat.title == "First?"


def test_undo_gives_back_the_question_but_never_takes_a_running_one() -> None:
    chat = Chat(1)
    assert chat.undo() == ""
    chat.turns.append(answered("First?"))
    turn = chat.begin("Second?", "toy")
    assert chat.running
    assert chat.undo() == ""
    turn.fail("it broke.")
    assert chat.undo() == "Second?"
    assert chat.undo() == "First?"
    assert chat.last is None


def test_a_long_question_is_cut_in_the_list() -> None:
    chat = Chat(1)
    chat.begin("word " * 20 + "\nmore", "toy")
    assert len(chat.title) == 28
    assert chat.title.endswith("…")
    assert "\n" not in chat.title
