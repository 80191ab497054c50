from __future__ import annotations

import pytest
from PySide6.QtGui import QColor, QPalette

from apps.desk.paint import faint, ground, mixed, rgb
from apps.desk.tints import tint
from tests.apps.desk.toy_window import dark


@pytest.mark.usefixtures("qapp")
def test_colours_come_from_the_palette() -> None:
    base = dark().color(QPalette.ColorRole.Base)
    assert rgb(ground("lookup", dark())) == tint("lookup", rgb(base))
    assert mixed(QColor(0, 0, 0), QColor(100, 200, 50), 0.5) == QColor(50, 100, 25)
    text = dark().color(QPalette.ColorRole.Text)
    assert base.lightness() < faint(dark()).lightness() < text.lightness()
