"""Which sequences may still have in the cache what a new prompt begins with. Knows tokens and ids, no engine.

Contract: a sequence is with one request at a time. It only saves reading: whoever gets another sequence says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgespec.spec.ports import SequenceId


class Shelf:
    """`fresh` makes a sequence, `release` frees one; at most `n_kept` lie idle."""

    def __init__(self, fresh: Callable[[], SequenceId], release: Callable[[SequenceId], None], n_kept: int) -> None:
        self._fresh = fresh
        self._release = release
        self._n_kept = n_kept
        self._idle: dict[SequenceId, list[int]] = {}  # in the order of last use

    def take(self, prompt: Sequence[int]) -> SequenceId:
        """The idle sequence that shares most with the prompt, if it would not lose more than is shared; else a new one.

        So two chats that share nothing but a system prompt do not throw each other's text away.
        """
        shared = {sequence: n_common(tokens, prompt) for sequence, tokens in self._idle.items()}
        fitting = [sequence for sequence, n in shared.items() if 2 * n > len(self._idle[sequence])]
        if not fitting:
            return self._fresh()
        best = max(fitting, key=lambda sequence: shared[sequence])
        del self._idle[best]
        return best

    def put_back(self, sequence: SequenceId, tokens: Sequence[int]) -> None:
        """Its request is over; it has read these tokens, or a part of them from the start."""
        self._idle[sequence] = list(tokens)
        if len(self._idle) > self._n_kept:
            oldest = next(iter(self._idle))
            del self._idle[oldest]
            self._release(oldest)

    @property
    def idle(self) -> tuple[SequenceId, ...]:
        return tuple(self._idle)


def n_common(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens both begin with."""
    n = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        n += 1
    return n
