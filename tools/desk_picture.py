"""Draws the desktop window with a real answer in it, without a screen: docs/images/desk.png.

Contract: the picture shows what the window shows, nothing is painted over. MODEL should have been tuned, else nothing
is drafted and there is little to see.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from apps.desk.desk import Desk
    from apps.desk.window import Window

QUESTIONS = (
    "What is a river delta?",
    "Repeat this text, and correct its one mistake: A river carries sand and mud down to the sea. Where it meets the "
    "sea it slows down, and the sand and mud sinks. Over many years they build up new land, and the river finds many "
    "small ways through it.",
)
# A real answer takes seconds; what takes longer than this never comes.
DEADLINE_SECONDS = 300.0
POLL_SECONDS = 0.01


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--output", type=click.Path(path_type=Path), default=Path("docs/images/desk.png"), show_default=True)
@click.option("--threads", type=int, help="Threads the model runs on.")
@click.option("--draft", default="auto", show_default=True, help="What the window's settings say.")
def main(model: Path, output: Path, threads: int | None, draft: str) -> None:
    """Ask MODEL in a window that nobody sees, and keep its picture."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    draw(model, output, threads, draft)


def draw(model: Path, output: Path, threads: int | None, draft: str) -> None:
    from PySide6.QtGui import QFont
    from PySide6.QtWidgets import QApplication

    from apps.desk.desk import Desk
    from apps.desk.opening import real_means
    from apps.desk.window import Window
    from edgespec import DraftChoice, EngineOptions, GenerateOptions

    application = QApplication.instance() or QApplication([])
    assert isinstance(application, QApplication)
    application.setFont(QFont("DejaVu Sans", 10))
    desk = Desk(
        real_means(EngineOptions(threads=threads), offline=True),
        GenerateOptions(draft=DraftChoice.parse(draft), max_tokens=160),
    )
    window = Window(desk)
    window.show()
    window.open_model(str(model))
    wait(desk, lambda: not desk.keeper.busy)
    for question in QUESTIONS:
        window.ask(question)
        wait(desk, lambda: not desk.running)
    point_at_a_guess(window, desk)
    keep(window, output)
    window.close()
    wait(desk, lambda: desk.closed)


def wait(desk: Desk, is_over: Callable[[], bool]) -> None:
    """Let the window work until then. Raises ClickException for what went wrong meanwhile."""
    from PySide6.QtWidgets import QApplication

    ends = time.monotonic() + DEADLINE_SECONDS
    while not is_over():
        if time.monotonic() > ends:
            raise click.ClickException(f"nothing came of it in {DEADLINE_SECONDS:.0f} s")
        QApplication.processEvents()
        time.sleep(POLL_SECONDS)
    if desk.error:
        raise click.ClickException(desk.error)


def point_at_a_guess(window: Window, desk: Desk) -> None:
    """Put the text cursor on the word whose draft has most nodes accepted, as its reader would."""
    from PySide6.QtWidgets import QApplication

    turn = desk.current.turns[-1]
    best = max(turn.rounds, key=lambda one: one.report.n_accepted)
    before = next((at for at, span in enumerate(turn.spans) if turn.round_at(span.token) is best), 0)
    said = sum(len(span.text) for span in turn.spans[: before + 1])
    cursor = window.transcript.textCursor()
    cursor.setPosition(window.transcript.toPlainText().rindex(turn.text) + said)
    window.transcript.setFocus()
    window.transcript.setTextCursor(cursor)
    QApplication.processEvents()


def keep(window: Window, output: Path) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    if not window.grab().save(str(output)):
        raise click.ClickException(f"cannot write {output}")
    click.echo(f"{output}: {output.stat().st_size} bytes", err=True)


if __name__ == "__main__":
    main()
