"""Text that comes from outside: files, pipes and arguments. It is UTF-8 or it is refused, by name."""

from __future__ import annotations

import sys
from pathlib import Path

from edgespec.errors import BadInput


def read_text(path: Path, what: str) -> str:
    """A whole file. `what` names its purpose. Raises BadInput."""
    try:
        return decoded(path.read_bytes(), f"{what} {path}")
    except OSError as error:
        raise BadInput(f"{what} {path}", error.strerror or str(error), "check the path and the file's rights") from None


def read_stdin() -> str:
    """All of standard input, without the line end that `echo` and editors put last. Raises BadInput."""
    return without_last_newline(decoded(sys.stdin.buffer.read(), "standard input"))


def without_last_newline(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")


def checked_argument(text: str, what: str) -> str:
    """Text that was UTF-8 when it was typed; what was not cannot be said to a model. Raises BadInput."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise BadInput(what, f"character {error.start} is not UTF-8", "give it in UTF-8") from None
    return text


def decoded(raw: bytes, what: str) -> str:
    """Raises BadInput, which names `what` and the first wrong byte."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(what, f"byte {error.start} is not UTF-8", "convert it to UTF-8") from None
