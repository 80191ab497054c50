"""Runs programs one after another in this process: JSON [[name, source], ...] on stdin, a JSON line for each on stdout.

Each has a namespace of its own, and says by its line what it printed and what it failed with.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import threading
import traceback

# A thread that said its last may take a moment to end.
ENDING_SECONDS = 10.0


def run(name: str, source: str) -> dict[str, object]:
    """threads: that the program left behind, by name."""
    printed, error = io.StringIO(), ""
    before = set(threading.enumerate())
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(source, name, "exec"), {"__name__": "__main__"})
        except (Exception, SystemExit):
            error = traceback.format_exc()
    left = [thread for thread in threading.enumerate() if thread not in before]
    for thread in left:
        thread.join(ENDING_SECONDS)
    names = [thread.name for thread in left if thread.is_alive()]
    return {"name": name, "printed": printed.getvalue(), "error": error, "threads": names}


if __name__ == "__main__":
    for one in json.load(sys.stdin):
        print(json.dumps(run(*one)), flush=True)
