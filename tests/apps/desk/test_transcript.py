from __future__ import annotations

from PySide6.QtCore import QPoint
from PySide6.QtGui import QTextCursor, QTextFormat
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from apps.desk.chat import Chat
from apps.desk.paint import ground
from apps.desk.transcript import Transcript
from edgespec import Piece
from tests.apps.desk.made import answered
from tests.apps.desk.toy_window import dark

Pointed = list[tuple[int, int]]


def shown(qtbot: QtBot, chat: Chat) -> tuple[Transcript, Pointed]:
    pointed: Pointed = []
    transcript = Transcript(lambda turn, token: pointed.append((turn, token)))
    qtbot.addWidget(transcript)
    transcript.resize(400, 300)
    transcript.show()
    transcript.refresh(chat)
    return transcript, pointed


def chat_of(n_turns: int = 1) -> Chat:
    chat = Chat(1)
    chat.turns = [answered(f"Question {n}?") for n in range(n_turns)]
    return chat


def grounds(transcript: Transcript) -> list[tuple[str, str]]:
    """Tinted stretches of text and their colours."""
    found: list[tuple[str, str]] = []
    cursor = QTextCursor(transcript.document())
    while cursor.movePosition(QTextCursor.MoveOperation.NextCharacter, QTextCursor.MoveMode.KeepAnchor):
        kind = cursor.charFormat()
        if kind.hasProperty(QTextFormat.Property.BackgroundBrush):
            colour = kind.background().color().name()
            if found and found[-1][1] == colour:
                found[-1] = (found[-1][0] + cursor.selectedText(), colour)
            else:
                found.append((cursor.selectedText(), colour))
        cursor.clearSelection()
    return found


def test_guesses_that_were_accepted_stand_on_their_drafters_tint(qtbot: QtBot) -> None:
    transcript, _ = shown(qtbot, chat_of())
    assert transcript.toPlainText() == "You\nQuestion 0?\n\ntoy\na bc d ef"
    palette = transcript.palette()
    assert grounds(transcript) == [
        (" bc", ground("lookup", palette).name()),
        (" e", ground("suffix", palette).name()),
    ]


def test_only_what_is_new_is_written(qtbot: QtBot) -> None:
    chat = Chat(1)
    turn = chat.begin("Why?", "toy")
    transcript, _ = shown(qtbot, chat)
    changed: list[tuple[int, int, int]] = []
    transcript.document().contentsChange.connect(lambda at, gone, come: changed.append((at, gone, come)))
    for text in ("one", " two\n", "three"):
        turn.add_piece(Piece(text, (1,), ""))
        transcript.refresh(chat)
        transcript.refresh(chat)
    assert [(gone, come) for _, gone, come in changed] == [(0, 3), (0, 5), (0, 5)]
    assert transcript.toPlainText().endswith("toy\none two\nthree")


def test_the_way_an_answer_ended_is_said(qtbot: QtBot) -> None:
    chat = chat_of()
    chat.begin("And?", "toy").fail("cells: too few; take less.")
    transcript, _ = shown(qtbot, chat)
    transcript.refresh(chat)
    assert transcript.toPlainText().endswith("And?\n\ntoy\n [cells: too few; take less.]")


def test_another_chat_and_fewer_turns_are_shown_anew(qtbot: QtBot) -> None:
    chat = chat_of(2)
    transcript, _ = shown(qtbot, chat)
    chat.undo()
    transcript.refresh(chat)
    assert "Question 1?" not in transcript.toPlainText()
    chat.turns[0] = answered("Again?")
    transcript.refresh(chat)
    assert transcript.toPlainText().startswith("You\nAgain?")
    transcript.refresh(Chat(2))
    assert transcript.toPlainText() == ""


def test_it_follows_the_end_unless_its_reader_went_back(qtbot: QtBot) -> None:
    chat = chat_of(40)
    transcript, _ = shown(qtbot, chat)
    bar = transcript.verticalScrollBar()
    assert bar.value() == bar.maximum() > 0
    bar.setValue(0)
    chat.turns.append(answered())
    transcript.refresh(chat)
    assert bar.value() == 0


def test_another_palette_takes_other_tints(qtbot: QtBot) -> None:
    transcript, _ = shown(qtbot, chat_of())
    before = grounds(transcript)
    transcript.setPalette(dark())
    after = grounds(transcript)
    assert [text for text, _ in after] == [text for text, _ in before]
    assert after != before


def test_mouse_and_cursor_find_turn_and_token(qtbot: QtBot) -> None:
    chat = chat_of(2)
    transcript, pointed = shown(qtbot, chat)
    text = transcript.toPlainText()
    cursor = transcript.textCursor()
    cursor.setPosition(text.rindex("c d ef"))  # behind " b"
    place = transcript.cursorRect(cursor)
    QTest.mouseMove(transcript.viewport(), place.center() - QPoint(2, 0))
    qtbot.waitUntil(lambda: (1, 1) in pointed)
    assert transcript.token_at(QPoint(390, 290)) == (-1, -1)
    transcript.setFocus()
    transcript.setTextCursor(cursor)
    assert pointed[-1] == (1, 1)
    cursor.setPosition(2)  # in "You"
    transcript.setTextCursor(cursor)
    assert pointed[-1] == (-1, -1)


def test_a_word_tells_where_it_comes_from(qtbot: QtBot) -> None:
    transcript, _ = shown(qtbot, chat_of())
    assert transcript.word_about(0, 1) == "guessed by lookup; its pass had 2 of 3 guesses accepted"
    assert transcript.word_about(0, 0) == "said by the model itself; its pass had 0 of 0 guesses accepted"
    assert transcript.word_about(-1, -1) == ""
    assert transcript.word_about(0, 99) == ""


def test_odd_letters_do_no_harm(qtbot: QtBot) -> None:
    chat = Chat(1)
    turn = chat.begin("?", "toy")
    for text in ("a\r\nb", "\x00\x1b[31m", "<b>&amp;", "\U0001f600", "\u2029"):
        turn.add_piece(Piece(text, (1,), "lookup"))
    transcript, _ = shown(qtbot, chat)
    assert "<b>&amp;\U0001f600" in transcript.toPlainText()
