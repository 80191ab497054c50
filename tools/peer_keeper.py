"""Runs a program and ends it when its own stdin ends, so that the program cannot outlive whoever started it.

    python tools/peer_keeper.py PROGRAM ARGUMENT...

Prints the program's process id, and at the end its exit code.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

# Ctrl-C is looked for this often: on Windows nothing else ends a wait. The machine is being measured meanwhile.
_POLL_SECONDS = 0.5


def main() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        print(process.pid, flush=True)

        def end_with_parent() -> None:
            while os.read(0, 1):
                pass
            process.kill()

        threading.Thread(target=end_with_parent, daemon=True).start()
        waiting = threading.Thread(target=process.wait, daemon=True)
        waiting.start()
        while waiting.is_alive():
            waiting.join(_POLL_SECONDS)
        print(process.returncode, flush=True)
    except KeyboardInterrupt:  # Ctrl-C reaches every process in the terminal; the program may take it as it likes
        sys.exit(130)
    finally:
        process.kill()


if __name__ == "__main__":
    main()
