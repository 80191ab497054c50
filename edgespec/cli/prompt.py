"""Where a chat's messages come from: a person at a terminal, or lines from a pipe. Both are read until None."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import create_output
from prompt_toolkit.shortcuts import CompleteStyle

from edgespec.cli.inputs import decoded
from edgespec.cli.message import is_open, messages, unquoted

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

PROMPT = "> "
CONTINUATION = ". "

# The words that can follow what has been typed of a line that begins with "/".
Suggest = Callable[[str], Iterable[str]]


class MessageSource(Protocol):
    interactive: bool

    def read(self) -> str | None:
        """The next message, None at the end. Raises KeyboardInterrupt when Ctrl-C is pressed instead."""


class PipedMessages:
    """Every line is a message, unless it goes on by the rules of `message`. Raises BadInput for what is not UTF-8."""

    interactive = False

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._messages = messages(decoded(line, "standard input") for line in lines)

    def read(self) -> str | None:
        return next(self._messages, None)


class TerminalPrompt:
    """A line editor. Enter sends; Ctrl-J, Alt-Enter and a backslash before Enter begin a new line; so does Enter inside
    triple quotes. Several pasted lines stay one message. Tab completes commands.
    """

    interactive = True

    def __init__(
        self,
        suggest: Suggest,
        history: History,
        terminal_input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self._session: PromptSession[str] = PromptSession(
            PROMPT,
            multiline=True,
            prompt_continuation=CONTINUATION,
            history=history,
            key_bindings=_bindings(),
            completer=CommandCompleter(suggest),
            complete_while_typing=False,
            complete_style=CompleteStyle.READLINE_LIKE,  # a menu would scroll what is above it
            input=terminal_input,
            output=output or create_output(always_prefer_tty=True),  # stdout may be a file, for the answers
        )

    def read(self) -> str | None:
        try:
            return unquoted(self._session.prompt())
        except EOFError:
            return None


class CommandCompleter(Completer):
    """Completes the last word of a line that begins with "/"."""

    def __init__(self, suggest: Suggest) -> None:
        self._suggest = suggest

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        text = document.text_before_cursor
        if text.startswith("/") and "\n" not in document.text:
            word = text.rpartition(" ")[2]
            for candidate in self._suggest(text):
                if candidate.startswith(word):
                    yield Completion(candidate, start_position=-len(word))


class KeptHistory(FileHistory):
    """A history file; a disk that cannot be written costs the history, not the session."""

    def store_string(self, string: str) -> None:
        with contextlib.suppress(OSError, UnicodeError):
            super().store_string(string)


def open_history(path: Path) -> History:
    """The history kept in `path`, readable by its owner only; one in memory where no file can be had."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.read_bytes()
    except OSError:
        return InMemoryHistory()
    return KeptHistory(str(path))


def message_source(suggest: Suggest, history_path: Path) -> MessageSource:
    if sys.stdin.isatty():
        return TerminalPrompt(suggest, open_history(history_path))
    return PipedMessages(sys.stdin.buffer)


def _bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter")
    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_open(buffer.text):
            buffer.insert_text("\n")
        elif buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @bindings.add("c-j")
    @bindings.add("escape", "enter")
    def begin_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return bindings
