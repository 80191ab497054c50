"""What other threads have to tell the window's thread, kept until that one has time for it. Knows no Qt."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

Act = Callable[[], None]


class Handover:
    """`put` from any thread, in any number; `drain` in one thread only, which performs the acts in their order."""

    def __init__(self) -> None:
        self._acts: deque[Act] = deque()

    def put(self, act: Act) -> None:
        self._acts.append(act)

    def drain(self) -> int:
        """Perform what had come when it was called: what comes meanwhile waits, so a fast engine cannot hold it up for
        ever. Returns how many acts that were.
        """
        n_acts = len(self._acts)
        for _ in range(n_acts):
            self._acts.popleft()()
        return n_acts
