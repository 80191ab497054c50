from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from edgespec.cli.prompt import (
    CommandCompleter,
    KeptHistory,
    PipedMessages,
    TerminalPrompt,
    message_source,
    open_history,
)
from edgespec.errors import BadInput

ENTER, CTRL_C, CTRL_D, CTRL_J, TAB, ALT_ENTER = "\r", "\x03", "\x04", "\n", "\t", "\x1b\r"


def suggest(typed: str) -> Iterable[str]:
    return ["lookup", "off"] if " " in typed else ["/draft", "/exit"]


def typed(keys: str) -> list[str | None]:
    """What is read while these keys are pressed; "^C" where Ctrl-C was."""
    got: list[str | None] = []
    with create_pipe_input() as keyboard:
        keyboard.send_text(keys + CTRL_D)
        prompt = TerminalPrompt(suggest, InMemoryHistory(), keyboard, DummyOutput())
        while not got or got[-1] is not None:
            try:
                got.append(prompt.read())
            except KeyboardInterrupt:
                got.append("^C")
    return got[:-1]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("hello" + ENTER, ["hello"]),
        ("one" + CTRL_J + "two" + ENTER, ["one\ntwo"]),
        ("one" + ALT_ENTER + "two" + ENTER, ["one\ntwo"]),
        ("one\\" + ENTER + "two" + ENTER + "three" + ENTER, ["one\ntwo", "three"]),
        ('"""one' + ENTER + ENTER + 'two"""' + ENTER, ["one\n\ntwo"]),
        ("\x1b[200~a\nb\\\r\nc\x1b[201~" + ENTER, ["a\nb\\\nc"]),
        ("abc" + CTRL_C + "d" + ENTER, ["^C", "d"]),
        (CTRL_C + CTRL_C, ["^C", "^C"]),
        ("/dr" + TAB + " lo" + TAB + ENTER, ["/draft lookup"]),
        ("dr" + TAB + ENTER, ["dr"]),
        ("你好 🦊" + ENTER, ["你好 🦊"]),
        ("", []),
    ],
)
def test_keys_become_messages(keys: str, expected: list[str]) -> None:
    assert typed(keys) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/", ["/draft", "/exit"]),
        ("/e", ["/exit"]),
        ("/draft ", ["lookup", "off"]),
        ("hello", []),
        ("/e\nx", []),
        (" /e", []),
    ],
)
def test_only_commands_are_completed(text: str, expected: list[str]) -> None:
    found = CommandCompleter(suggest).get_completions(Document(text), CompleteEvent())
    assert [completion.text for completion in found] == expected


def test_lines_of_a_pipe_are_messages() -> None:
    source = PipedMessages(io.BytesIO("hé\ntwo\\\nlines\n".encode()))
    assert [source.read(), source.read(), source.read(), source.read()] == ["hé", "two\nlines", None, None]


def test_a_pipe_that_is_not_utf8() -> None:
    with pytest.raises(BadInput, match="standard input: byte 1"):
        PipedMessages([b"a\xff\n"]).read()


def test_history_survives_the_session(tmp_path: Path) -> None:
    path = tmp_path / "data" / "history"
    open_history(path).append_string("one\ntwo")
    assert list(open_history(path).load_history_strings()) == ["one\ntwo"]


def test_no_place_for_a_history_costs_the_history_only(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where a folder should be")
    assert isinstance(open_history(tmp_path / "data" / "history"), InMemoryHistory)
    history = KeptHistory(str(tmp_path / "data" / "history"))
    history.append_string("lost when the program ends")
    history.append_string("not \udcff UTF-8")


def test_a_pipe_is_read_by_lines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"one\n")))
    source = message_source(suggest, tmp_path / "history")
    assert not source.interactive
    assert source.read() == "one"
