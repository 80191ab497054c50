"""Ctrl-C in the terminal that the window was started from does what closing the window does."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType

from PySide6.QtCore import QSocketNotifier

BYTES = 64


class CtrlC:
    """While inside, in the main thread. Python only hears of a signal when it runs, and in an idle window nothing does:
    so the signal also writes into a socket, which wakes the event loop.
    """

    def __init__(self, pressed: Callable[[], None]) -> None:
        self._pressed = pressed

    def __enter__(self) -> CtrlC:
        self._heard, self._written = socket.socketpair()
        for end in (self._heard, self._written):
            end.setblocking(False)
        self._notifier = QSocketNotifier(self._heard.fileno(), QSocketNotifier.Type.Read)
        self._notifier.activated.connect(lambda *_: self._drain())
        self._wakes_before = signal.set_wakeup_fd(self._written.fileno())
        self._handles_before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._handles_before)
        signal.set_wakeup_fd(self._wakes_before)
        self._notifier.setEnabled(False)
        self._heard.close()
        self._written.close()

    def _handle(self, _signal: int, _frame: FrameType | None) -> None:
        self._pressed()

    def _drain(self) -> None:
        with suppress(BlockingIOError):
            self._heard.recv(BYTES)
