"""Starts the window and runs it until it is closed."""

from __future__ import annotations

import sys
from dataclasses import replace

from PySide6.QtWidgets import QApplication

from edgespec import EngineOptions, GenerateOptions

from .binding import require_binding, require_display
from .ctrlc import CtrlC
from .desk import Desk
from .opening import real_means
from .window import Window


def start(model: str | None, engine: EngineOptions, answers: GenerateOptions | None, offline: bool) -> int:
    """model: None for the starter model. answers: None for a chat's usual options. Returns the process's exit code,
    after the window was closed and the model freed. Raises MissingExtra for a PySide6 that would crash, BadInput
    without a display.
    """
    require_binding()
    require_display()
    application = QApplication.instance() or QApplication(sys.argv[:1])
    application.setApplicationName("edgespec")
    window = Window(Desk(real_means(replace(engine, tune_when_idle=True), offline), answers))
    window.show()
    window.open_model(model)
    with CtrlC(window.leave):
        return application.exec()
