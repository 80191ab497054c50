from __future__ import annotations

from pytestqt.qtbot import QtBot

from apps.desk.panel import NO_WHY, Panel
from edgespec import Notice
from tests.apps.desk.made import answered


def test_what_is_shown_of_an_answer(qtbot: QtBot) -> None:
    panel = Panel()
    qtbot.addWidget(panel)
    panel.refresh(None, ())
    assert panel.why.toPlainText() == NO_WHY
    assert panel.tree.drafted is None
    turn = answered()
    panel.refresh(turn, [Notice("a", "it was said before"), Notice("b", "a line")])
    assert "Tokens per pass: 2.00" in panel.figures.accessibleDescription()
    assert panel.tree.drafted is turn.rounds[2]
    assert panel.why.toPlainText().split("\n\n") == ["It was copied.", "A cause.", "It was said before.", "A line."]


def test_a_pointed_round_is_shown_until_it_is_let_go(qtbot: QtBot) -> None:
    panel = Panel()
    qtbot.addWidget(panel)
    turn = answered()
    panel.refresh(turn, ())
    panel.point_at(turn.rounds[1])
    panel.refresh(turn, ())
    assert panel.tree.drafted is turn.rounds[1]
    panel.point_at(None)
    assert panel.tree.drafted is turn.rounds[2]
    panel.point_at(turn.rounds[1])
    panel.refresh(answered(), ())  # another answer
    assert panel.tree.drafted is not turn.rounds[1]
