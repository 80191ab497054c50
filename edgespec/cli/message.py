"""When typed lines are one whole message: a line that ends in a backslash goes on, and so does one in triple quotes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

QUOTES = '"""'


def is_open(text: str) -> bool:
    """Is this the beginning of a message in triple quotes that have not been closed?"""
    return text.lstrip().startswith(QUOTES) and text.count(QUOTES) % 2 == 1


def unquoted(text: str) -> str:
    """The message without the triple quotes around it. Text that only begins with quotes, such as code, stays whole."""
    inner = text.strip()
    if inner.startswith(QUOTES) and inner.count(QUOTES) == 1:  # the input ended before the quotes were closed
        return inner[len(QUOTES) :].strip("\n")
    if inner.startswith(QUOTES) and inner.endswith(QUOTES) and inner.count(QUOTES) == 2:
        return inner[len(QUOTES) : -len(QUOTES)].strip("\n")
    return text


def messages(lines: Iterable[str]) -> Iterator[str]:
    """Joins lines (with or without their ends) to messages."""
    text, is_first = "", True
    for line in lines:
        text += ("" if is_first else "\n") + line.rstrip("\r\n")
        is_first = False
        if is_open(text):
            continue
        if text.endswith("\\"):
            text, is_first = text[:-1] + "\n", True
            continue
        yield unquoted(text)
        text, is_first = "", True
    if text:
        yield unquoted(text)
