from __future__ import annotations

from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from apps.desk.legend import Legend
from apps.desk.paint import ground
from tests.apps.desk.toy_window import dark


def swatches(legend: Legend) -> list[tuple[str, str]]:
    layout = legend.layout()
    assert layout is not None
    items = [layout.itemAt(at) for at in range(layout.count())]
    labels = [item.widget() for item in items if item is not None]
    return [
        (one.text().strip(), one.palette().color(QPalette.ColorRole.Window).name())
        for one in labels
        if isinstance(one, QLabel)
    ]


def test_one_swatch_for_each_drafter(qtbot: QtBot) -> None:
    legend = Legend()
    qtbot.addWidget(legend)
    legend.show_sources(("suffix", "model"))
    legend.show_sources(("suffix", "model"))
    assert [name for name, _ in swatches(legend)] == ["suffix", "model"]
    legend.setPalette(dark())
    assert ground("suffix", legend.palette()).name() == swatches(legend)[0][1]
    legend.show_sources(())
    assert legend.isHidden()
