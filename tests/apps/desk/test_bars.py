from __future__ import annotations

from PySide6.QtGui import QPalette
from pytestqt.qtbot import QtBot

from apps.desk.bars import EMPTY, DepthBars
from apps.desk.figures import Bar


def n_filled(bars: DepthBars) -> int:
    """Pixels in the colour of what was accepted."""
    picture = bars.grab().toImage()
    colour = bars.palette().color(QPalette.ColorRole.Highlight).rgb()
    return sum(picture.pixel(x, y) == colour for x in range(picture.width()) for y in range(picture.height()))


def test_bars_are_as_long_as_their_shares(qtbot: QtBot) -> None:
    bars = DepthBars()
    qtbot.addWidget(bars)
    bars.resize(300, 60)
    assert bars.accessibleDescription() == EMPTY
    assert n_filled(bars) == 0
    bars.show_bars((Bar(1, 0.5, 8),))
    half = n_filled(bars)
    bars.show_bars((Bar(1, 1.0, 8),))
    whole = n_filled(bars)
    assert 0.4 < half / whole < 0.6
    bars.show_bars((Bar(1, 1.0, 8), Bar(2, 0.0, 2)))
    assert n_filled(bars) == whole
    assert bars.accessibleDescription() == "1 ahead: 100% of 8; 2 ahead: 0% of 2"


def test_it_grows_with_its_bars_and_its_font(qtbot: QtBot) -> None:
    bars = DepthBars()
    qtbot.addWidget(bars)
    one = bars.sizeHint().height()
    bars.show_bars(tuple(Bar(depth, 0.5, 4) for depth in range(1, 4)))
    three = bars.sizeHint().height()
    assert three > one
    font = bars.font()
    font.setPointSizeF(2 * font.pointSizeF())
    bars.setFont(font)
    assert bars.sizeHint().height() > three
