"""Where things are printed: answers on stdout as they come, never taken back; everything else on stderr."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterable
from dataclasses import replace

import click
from rich.console import Console
from rich.text import Text

from edgespec.cli.paint import Look, legend, printable, tinted
from edgespec.errors import BadInput, DiskFull, EdgeSpecError
from edgespec.events import Notice, Piece

# Told anew with every figure in it, these would be most of what a busy machine's user reads.
_COMES_AND_GOES = frozenset({"cores-taken"})

# Windows reports a pipe that nobody reads any more as an invalid argument.
_NOBODY_READS = (errno.EPIPE, errno.EINVAL)


class Screen:
    """One command's output. `console` is stderr; lines there are never wrapped, so that they stay whole in a log."""

    def __init__(self, look: Look) -> None:
        self.look = look
        self.console = Console(stderr=True, highlight=False, color_system="auto" if look.styled else None)
        self._seen: set[Notice] = set()
        self._explained: set[str] = set()
        self._tinted: set[str] = set()
        self._last = ""

    # -- answers ------------------------------------------------------------------------------------------------

    def piece(self, piece: Piece) -> None:
        """Show the next bit of an answer at once. Raises BrokenPipeError, DiskFull or BadInput."""
        tints = self.look.tints and bool(piece.source)
        text = printable(piece.text) if self.look.tints or sys.stdout.isatty() else piece.text
        self._last = text or self._last
        if tints:
            self._tinted.add(piece.source)
        emit(tinted(text, piece.source) if tints else text)

    def break_off(self) -> None:
        """Close the line of an answer that failed; nothing if it had not begun."""
        if self._last and not self._last.endswith("\n"):
            emit("\n")
        self._last = ""

    def end_answer(self) -> None:
        """Close the answer's last line; the first tinted answer is followed by a legend."""
        if not self._last.endswith("\n"):
            emit("\n")
        self._last = ""
        new = sorted(self._tinted - self._explained)
        if new:
            self.console.print(Text.from_ansi(legend(new)), soft_wrap=True)
        self._explained |= self._tinted

    # -- everything else ----------------------------------------------------------------------------------------

    def notice(self, notice: Notice) -> None:
        """One dim line, the first time only; of what comes and goes with other programs, the first of its kind."""
        seen = replace(notice, message="") if notice.code in _COMES_AND_GOES else notice
        if seen not in self._seen:
            self._seen.add(seen)
            self.dim(notice.message)

    def dim(self, line: str) -> None:
        self.console.print(Text(line, style="dim"), soft_wrap=True)

    def line(self, line: str) -> None:
        self.console.print(Text(line), soft_wrap=True)

    def error(self, error: EdgeSpecError) -> None:
        self.line(f"Error: {error}")

    def pairs(self, rows: Iterable[tuple[str, str]]) -> None:
        """Two columns: a name and what there is to say of it."""
        listed = list(rows)
        width = max((len(name) for name, _ in listed), default=0)
        for name, text in listed:
            self.console.print(Text.assemble(name.ljust(width), "  ", (text, "dim")), soft_wrap=True)


def emit(text: str) -> None:
    """Write to stdout and flush. Raises BrokenPipeError (nobody reads it), DiskFull or BadInput."""
    try:
        click.echo(text, nl=False, color=True)  # whoever made the text has decided about colour
    except OSError as error:
        raise _output_error(error) from error


def _output_error(error: OSError) -> Exception:
    if error.errno in _NOBODY_READS:
        return BrokenPipeError(error.errno, "nobody reads the output")
    what, why = "cannot write the answer to stdout", error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return DiskFull(what, why, "make room, or write to another disk")
    return BadInput(what, why, "check where the output goes")
