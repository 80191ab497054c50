"""Colours and fonts of the widgets that paint for themselves: from the system's palette, dark or light."""

from __future__ import annotations

from PySide6.QtGui import QColor, QPalette

from .tints import Rgb, tint


def rgb(colour: QColor) -> Rgb:
    return colour.red(), colour.green(), colour.blue()


def ground(source: str, palette: QPalette) -> QColor:
    """Behind text in the palette's own colour that `source` guessed."""
    return QColor(*tint(source, rgb(palette.color(QPalette.ColorRole.Base))))


def mixed(one: QColor, other: QColor, share: float) -> QColor:
    """`share` of the other, 0 to 1."""
    red, green, blue = (round((1.0 - share) * a + share * b) for a, b in zip(rgb(one), rgb(other), strict=True))
    return QColor(red, green, blue)


def faint(palette: QPalette) -> QColor:
    """For lines and words that stand back; readable on the palette's base in either theme."""
    return mixed(palette.color(QPalette.ColorRole.Text), palette.color(QPalette.ColorRole.Base), 0.4)
