"""What a real terminal does is tested in tests/live/test_terminal.py; here there is none."""

from __future__ import annotations

import io
import sys

import pytest

from edgespec.cli.keyboard import Keyboard


def test_without_a_terminal_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("left alone"))
    keyboard = Keyboard()
    with keyboard.asking():
        pass
    with keyboard.holding_keys(), keyboard.asking():
        pass
    assert sys.stdin.read() == "left alone"
