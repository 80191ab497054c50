"""llama.cpp's log, kept silent in a ring. Its callback belongs to the whole process, so the ring does too."""

from __future__ import annotations

import ctypes
import re
from collections import deque
from functools import cache

import llama_cpp

# Levels of the library's log.
DEBUG, ERROR = 1, 4
# Ends every failed load and says nothing.
VAGUE = "failed to load model"
# Functions of the library at the start of a line, and the two that wrap another one's reason.
WHERE = re.compile(r"^[a-z_0-9]+: (error loading model: (error loading model vocabulary: )?|failed to [a-z ]+: )?")


class Log:
    """What llama.cpp logged of late. Silent: it is shown only as the cause of an error."""

    def __init__(self) -> None:
        self._lines: deque[tuple[int, str]] = deque(maxlen=200)
        self.callback = llama_cpp.llama_log_callback(self._append)

    def _append(self, level: int, text: bytes, _user_data: object) -> None:
        line = text.decode("utf-8", "replace").strip()
        # A line without letters is one of the dots that show a load's progress.
        if level != DEBUG and any(map(str.isalpha, line)):
            self._lines.append((level, line))

    def forget(self) -> None:
        self._lines.clear()

    def reason(self) -> str:
        """Why the library failed, without the names of its functions; then forgets, so that causes do not mix.

        The cause is the first error logged: what follows only says what else failed because of it.
        """
        lines = list(self._lines)
        self.forget()
        errors = [line for level, line in lines if level == ERROR and VAGUE not in line]
        line = next(iter(errors), lines[-1][1] if lines else "llama.cpp gave no reason")
        return WHERE.sub("", line)


@cache
def log() -> Log:
    """The process's one llama.cpp log, installed at the first call, which also initialises the library."""
    ring = Log()
    llama_cpp.llama_log_set(ring.callback, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    return ring
