from __future__ import annotations

from PySide6.QtCore import QEvent, QPoint, QPointF
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QApplication, QToolTip
from pytestqt.qtbot import QtBot

from apps.desk.paint import ground
from apps.desk.treeview import EMPTY, TreeView
from tests.apps.desk.made import drafted
from tests.apps.desk.toy_window import dark


def shown(qtbot: QtBot) -> TreeView:
    tree = TreeView()
    qtbot.addWidget(tree)
    tree.show_round(drafted((-1, -1, 0), (0, 2), "suffix+lookup"))
    tree.resize(tree.sizeHint())
    return tree


def has_colour(tree: TreeView, colour: int) -> bool:
    picture = tree.grab().toImage()
    return any(picture.pixel(x, y) == colour for x in range(picture.width()) for y in range(picture.height()))


def test_accepted_nodes_have_the_tint_of_their_drafter(qtbot: QtBot) -> None:
    tree = shown(qtbot)
    assert has_colour(tree, ground("suffix", tree.palette()).rgb())
    tree.setPalette(dark())
    assert has_colour(tree, ground("suffix", tree.palette()).rgb())
    tree.show_round(drafted((-1,), ()))
    assert not has_colour(tree, ground("suffix", tree.palette()).rgb())


def test_every_node_has_a_place_of_its_own(qtbot: QtBot) -> None:
    tree = shown(qtbot)
    size = tree.sizeHint()
    places = [(x, y) for x in range(0, size.width(), 2) for y in range(0, size.height(), 2)]
    found = {tree.node_at(QPointF(x, y)) for x, y in places}
    assert found == {None, *tree.nodes}
    assert tree.accessibleDescription() == "3 tokens guessed, 2 deep; 2 accepted: ·n0 ·n2"


def test_a_node_tells_what_became_of_it(qtbot: QtBot) -> None:
    tree = shown(qtbot)
    tree.show()
    size = tree.sizeHint()
    inside = next(
        QPoint(x, y)
        for y in range(size.height())
        for x in range(size.width())
        if tree.node_at(QPointF(x, y)) is tree.nodes[1]
    )
    QApplication.sendEvent(tree, QHelpEvent(QEvent.Type.ToolTip, inside, tree.mapToGlobal(inside)))
    assert QToolTip.text() == "·n1: 1 ahead, not accepted"
    QApplication.sendEvent(tree, QHelpEvent(QEvent.Type.ToolTip, QPoint(0, 0), tree.mapToGlobal(QPoint(0, 0))))
    assert tree.node_at(QPointF(0, 0)) is None


def test_without_a_draft_it_says_so(qtbot: QtBot) -> None:
    tree = shown(qtbot)
    tree.show_round(None)
    assert tree.accessibleDescription() == EMPTY
    assert tree.grab().width() > 0
