"""Runs a program and ends it when its own stdin ends, so that the program cannot outlive whoever started it.

    python tools/peer_keeper.py PROGRAM ARGUMENT...

Prints the program's process id, and at the end its exit code.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading


def main() -> None:
    process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    print(process.pid, flush=True)

    def end_with_parent() -> None:
        while os.read(0, 1):
            pass
        process.kill()

    threading.Thread(target=end_with_parent, daemon=True).start()
    print(process.wait(), flush=True)


if __name__ == "__main__":
    main()
