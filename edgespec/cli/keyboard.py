"""What becomes of keys that are pressed while nobody reads them: they wait for the next prompt, unchanged and unseen.

A terminal left to itself would print them into the answer, and hand over Enter as Ctrl-J. Windows keeps keys by itself.
Where standard input is no terminal, nothing is done.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Keyboard:
    """Standard input's terminal. Use `holding_keys` once at a time, and `asking` inside it."""

    def __init__(self) -> None:
        self._ordinary: list[Any] | None = None  # what termios says of the terminal

    @contextmanager
    def holding_keys(self) -> Iterator[None]:
        """Keys wait; Ctrl-C interrupts all the same. Afterwards the terminal is as it was."""
        if sys.platform == "win32" or not sys.stdin.isatty():
            yield
            return
        import termios

        self._ordinary = termios.tcgetattr(sys.stdin)
        holding = termios.tcgetattr(sys.stdin)
        holding[0] &= ~termios.ICRNL
        holding[3] &= ~(termios.ECHO | termios.ICANON)
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, holding)
        try:
            yield
        finally:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._ordinary)
            self._ordinary = None

    @contextmanager
    def asking(self) -> Iterator[None]:
        """The terminal as it usually is, for a question that is answered by a line."""
        if sys.platform == "win32" or self._ordinary is None:
            yield
            return
        import termios

        holding = termios.tcgetattr(sys.stdin)
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._ordinary)
        try:
            yield
        finally:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, holding)
