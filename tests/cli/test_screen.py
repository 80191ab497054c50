from __future__ import annotations

import errno
import io

import pytest

from edgespec.cli.paint import Look
from edgespec.cli.screen import Screen, emit
from edgespec.errors import BadInput, DiskFull, ModelNotFound
from edgespec.events import Notice, Piece

PLAIN = Look(tints=False, styled=False)
TINTED = Look(tints=True, styled=True)


class Recorder(io.StringIO):
    """Standard output that notes what had been flushed, piece by piece."""

    def __init__(self) -> None:
        super().__init__()
        self.flushed: list[str] = []

    def flush(self) -> None:
        self.flushed.append(self.getvalue())


class Failing(io.StringIO):
    def __init__(self, error: int) -> None:
        super().__init__()
        self._error = error

    def write(self, _text: str) -> int:
        raise OSError(self._error, "no")


def test_an_answer_only_ever_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Recorder()
    monkeypatch.setattr("sys.stdout", out)
    screen = Screen(PLAIN)
    for text in ("a", " b\n", "c"):
        screen.piece(Piece(text, (), "lookup"))
    screen.end_answer()
    assert out.flushed == ["a", "a b\n", "a b\nc", "a b\nc\n"]


def test_a_pipe_gets_the_text_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(PLAIN)
    screen.piece(Piece("a\x1bb\n", (), ""))
    screen.end_answer()
    assert capsys.readouterr() == ("a\x1bb\n", "")


def test_tinted_text_cannot_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    Screen(TINTED).piece(Piece("a\x1bb", (), "lookup"))
    assert capsys.readouterr().out == "\x1b[32ma\u241bb\x1b[0m"


def test_the_legend_comes_once_per_drafter(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(TINTED)
    lines = []
    for source in ("", "lookup", "lookup", "given"):
        screen.piece(Piece("a", (), source))
        screen.end_answer()
        lines.append(capsys.readouterr().err)
    assert [bool(line) for line in lines] == [False, True, False, True]
    assert "lookup" in lines[1]
    assert "given" in lines[3]


def test_an_answer_without_text_is_an_empty_line_and_a_second_answer_begins_afresh(
    capsys: pytest.CaptureFixture[str],
) -> None:
    screen = Screen(PLAIN)
    screen.end_answer()
    screen.piece(Piece("a", (), ""))
    screen.end_answer()
    assert capsys.readouterr().out == "\na\n"


def test_an_answer_that_failed_leaves_no_empty_line(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(PLAIN)
    screen.break_off()
    assert capsys.readouterr().out == ""
    screen.piece(Piece("half", (), ""))
    screen.break_off()
    screen.break_off()
    assert capsys.readouterr().out == "half\n"


def test_a_notice_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(PLAIN)
    for message in ("first", "second", "first"):
        screen.notice(Notice("code", message))
    assert capsys.readouterr() == ("", "first\nsecond\n")


def test_lines_on_stderr_are_never_wrapped_or_marked_up(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(PLAIN)
    name = "[bold]" + "x" * 300
    screen.error(ModelNotFound(name, "it is not there", "look elsewhere"))
    screen.pairs([("name", "a"), ("longer", name)])
    assert capsys.readouterr().err.splitlines() == [
        f"Error: {name}: it is not there; look elsewhere.",
        "name    a",
        f"longer  {name}",
    ]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errno.EPIPE, BrokenPipeError),
        (errno.EINVAL, BrokenPipeError),
        (errno.ENOSPC, DiskFull),
        (errno.EIO, BadInput),
    ],
)
def test_output_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, error: int, expected: type[Exception]) -> None:
    monkeypatch.setattr("sys.stdout", Failing(error))
    with pytest.raises(expected):
        emit("text")


def test_what_comes_and_goes_with_other_programs_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(PLAIN)
    screen.notice(Notice("cores-taken", "other programs use 0.6 of 2 cores"))
    screen.notice(Notice("cores-taken", "other programs use 0.9 of 2 cores"))
    screen.notice(Notice("other", "one"))
    screen.notice(Notice("other", "two"))
    assert capsys.readouterr().err.splitlines() == ["other programs use 0.6 of 2 cores", "one", "two"]
