"""One process at a time, through a lock that the system drops by itself when its holder dies."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_POLL_SECONDS = 0.1


@contextmanager
def exclusive(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock file `path` (it is made, and stays). `on_wait` is called once if another process holds it."""
    with path.open("ab") as file:
        if not _try_lock(file):
            on_wait()
            while not _try_lock(file):
                time.sleep(_POLL_SECONDS)
        # Closing the file drops the lock, also after an exception.
        yield


if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: BinaryIO) -> bool:
        file.seek(0)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(file: BinaryIO) -> bool:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            # Some network disks have no locks. Two downloads at once then cost double work, not a broken file.
            return True
        return True
