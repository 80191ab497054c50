"""Work that takes time, each piece in a thread of its own; its end is told through the handover. Knows no Qt.

Contract: `run`, `n_running` and `drain` of the handover belong to one thread. An errand counts as running until that
thread has heard of its end, and its own thread is gone then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from edgespec.errors import EdgeSpecError

from .handover import Act, Handover

Tell = Callable[[str], None]


class Errands:
    def __init__(self, handover: Handover) -> None:
        self._handover = handover
        self._threads: list[threading.Thread] = []

    @property
    def n_running(self) -> int:
        return len(self._threads)

    def run(self, name: str, work: Act, failed: Tell) -> threading.Thread:
        """Do `work` elsewhere. `failed` gets one sentence, in the thread that drains."""
        thread = threading.Thread(target=self._do, args=(work, failed), name=f"edgespec-desk-{name}", daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _do(self, work: Act, failed: Tell) -> None:
        sentence = sentence_of(work)
        if sentence:
            self._handover.put(lambda: failed(sentence))
        thread = threading.current_thread()
        self._handover.put(lambda: self._end(thread))

    def _end(self, thread: threading.Thread) -> None:
        thread.join()  # telling its end was the last thing it did
        self._threads.remove(thread)


def sentence_of(work: Act) -> str:
    """Do `work`; returns what went wrong as one sentence with its remedy, "" if nothing did."""
    try:
        work()
    except EdgeSpecError as error:
        return str(error)
    except Exception as error:  # a defect is told too: a thread that dies in silence would leave the window waiting
        return f"the window's own work failed: {error!r}; report this, with what you did before."
    return ""
