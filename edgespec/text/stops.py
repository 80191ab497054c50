"""Finds the first stop string in text that arrives in pieces, and says how much of the text is safe to show.

Contract: the result depends on the text alone, never on how it was cut into pieces. The stop that starts first wins.
Knows no tokens and keeps no text. Plain twin: `min(text.find(stop))` over the whole text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from edgespec.errors import BadInput


class StopScanner:
    """Aho and Corasick's automaton (1975): constant time per character, however long and many the stops are.

    `n_safe` characters from the start of the text belong to no stop, whatever follows; `stopped` says that the text
    ends there. The longest suffix of the text that begins a stop is never safe.
    """

    __slots__ = ("_depth", "_fail", "_found", "_n_seen", "_next", "_state", "_stop_length", "n_safe", "stopped")

    def __init__(self, stops: Sequence[str]) -> None:
        """Raises BadInput for an empty stop string."""
        if "" in stops:
            raise BadInput("stop string ''", "an empty text would end every answer before it begins", "leave it out")
        self._next: list[dict[str, int]] = [{}]
        self._depth = [0]
        self._stop_length = [0]  # of the longest stop that is a suffix of this state's text; 0: none is
        self._fail = [0]
        for stop in stops:
            self._insert(stop)
        self._link()
        self._state = 0
        self._n_seen = 0
        self._found = -1  # start of the earliest complete stop so far
        self.n_safe = 0
        self.stopped = False

    def scan(self, text: str) -> None:
        """Read on. What follows a stop is ignored."""
        if self.stopped:
            return
        state = self._state
        n_seen = self._n_seen
        for character in text:
            while (target := self._next[state].get(character)) is None and state:
                state = self._fail[state]
            state = target or 0
            n_seen += 1
            if self._stop_length[state] and (self._found < 0 or n_seen - self._stop_length[state] < self._found):
                self._found = n_seen - self._stop_length[state]
            # A longer stop that started earlier may still be under way: only it can delay the verdict.
            if 0 <= self._found <= n_seen - self._depth[state]:
                self._end_at(self._found)
                return
        self._state = state
        self._n_seen = n_seen
        self.n_safe = n_seen - self._depth[state]

    def finish(self) -> None:
        """The text is over: an unfinished stop was ordinary text."""
        if not self.stopped and self._found >= 0:
            self._end_at(self._found)
        elif not self.stopped:
            self.n_safe = self._n_seen

    def _end_at(self, position: int) -> None:
        self.n_safe = position
        self.stopped = True

    def _insert(self, stop: str) -> None:
        state = 0
        for character in stop:
            if character not in self._next[state]:
                self._next[state][character] = len(self._next)
                self._next.append({})
                self._depth.append(self._depth[state] + 1)
                self._stop_length.append(0)
                self._fail.append(0)
            state = self._next[state][character]
        self._stop_length[state] = len(stop)

    def _link(self) -> None:
        """Breadth first, so that the shorter suffix a state falls back to is always ready before it."""
        queue = deque(self._next[0].values())
        while queue:
            state = queue.popleft()
            for character, child in self._next[state].items():
                queue.append(child)
                shorter = self._fail[state]
                while character not in self._next[shorter] and shorter:
                    shorter = self._fail[shorter]
                self._fail[child] = self._next[shorter].get(character, 0)
                self._stop_length[child] = self._stop_length[child] or self._stop_length[self._fail[child]]
