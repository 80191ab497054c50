"""The whole program over llama.cpp: in a process of its own, and in this one."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from apps.desk.desk import Desk
from apps.desk.opening import real_means
from apps.desk.window import Window
from edgespec import DraftChoice, EngineOptions, GenerateOptions
from tests.apps.desk.toy_desk import own_threads
from tests.apps.desk.toy_window import ask, asleep, gone

DEADLINE_SECONDS = 60.0
OPTIONS = EngineOptions(ctx_size=512, threads=1)
# Closes the window as soon as its model is open, and says so.
CLOSING = """
import sys
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
from edgespec import EngineOptions
from apps.desk import start
class Closing(start.Window):
    def refresh(self):
        super().refresh()
        if self.desk.keeper.ready:
            QTimer.singleShot(0, self.close)
start.Window = Closing
sys.exit(start.start(sys.argv[1], EngineOptions(ctx_size=512, threads=1), None, True))
"""


# Says when its model is open and nothing runs any more.
IDLE = CLOSING.replace("QTimer.singleShot(0, self.close)", "QTimer.singleShot(300, lambda: print('idle', flush=True))")


def test_a_real_model_is_opened_asked_and_left(qtbot: QtBot, toy_file: Path) -> None:
    answers = GenerateOptions(max_tokens=48, draft=DraftChoice.LOOKUP)
    window = Window(Desk(real_means(OPTIONS, offline=True), answers))
    qtbot.addWidget(window)
    window.show()
    window.open_model(str(toy_file))
    asleep(qtbot, window)
    assert window.status.label.text() == "toy"
    ask(qtbot, window, "the old man and the river and the old man and the river")
    turn = window.desk.current.turns[0]
    assert turn.completion is not None
    assert turn.text == turn.completion.text
    assert turn.tallied().n_drafted == turn.completion.timings.draft_n > 0
    assert "guesses came true" in window.panel.why.toPlainText()
    window.open_model(__file__)
    asleep(qtbot, window)
    assert "test_start.py" in window.banner.label.text()
    window.close()
    gone(qtbot, window)
    assert not own_threads()


def test_ctrl_c_in_the_terminal_closes_an_idle_window(toy_file: Path) -> None:
    command = [sys.executable, "-c", IDLE, str(toy_file)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "idle\n"
        process.send_signal(signal.SIGINT)
        try:
            _, said = process.communicate(timeout=DEADLINE_SECONDS)
        finally:
            process.kill()
    assert process.returncode == 0, said
    assert "Traceback" not in said


def test_the_program_ends_with_its_window(toy_file: Path) -> None:
    assert QApplication.instance() is not None
    command = [sys.executable, "-c", CLOSING, str(toy_file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
