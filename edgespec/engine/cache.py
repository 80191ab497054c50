"""Which tokens each sequence has in the target's cache, and who must give way when it is full. Used by the worker
only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgespec.engine.job import Job, Request
from edgespec.events import Notice
from edgespec.spec.ports import SequenceId, Target


@dataclass(slots=True)
class Cached:
    """n_exact: of the tokens, how many were read by exact requests. An exact answer goes on from these only: what fast
    ones leave depends on the widths they ran at and on who ran beside them.
    """

    tokens: list[int]
    n_exact: int


class CacheBook:
    """The order of `_cached` is the order of last use. Beyond the target's `max_sequences` requests wait, and idle
    conversations are forgotten, oldest first; they are read again when they go on.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._cached: dict[SequenceId, Cached] = {}
        self._told: set[SequenceId] = set()

    def reserve(self, request: Request, running: list[Request]) -> bool:
        """Whether the request may start beside those that run; idle caches are dropped to make room.

        An exact one has the cache to itself: other cells between its own change the order of summation, and so the
        last bits.
        """
        n_ctx, most = self._target.capabilities.n_ctx, self._target.capabilities.max_sequences
        busy = {one.sequence for one in running}
        needed = sum(self._extent(one, n_ctx) for one in (request, *running))
        alone = request.options.exact or any(one.options.exact for one in running)
        if running and (alone or needed > n_ctx or request.sequence in busy or len(running) >= most):
            return False
        idle = [s for s in self._cached if s not in busy and s != request.sequence]
        while idle and (alone or needed + self._n_cells(idle) > n_ctx or len(idle) + len(running) >= most):
            self.release(idle.pop(0))
        return True

    @staticmethod
    def _extent(request: Request, n_ctx: int) -> int:
        return min(n_ctx, len(request.prompt) + request.options.max_tokens)

    def _n_cells(self, sequences: list[SequenceId]) -> int:
        return sum(len(self._cached[sequence].tokens) for sequence in sequences)

    def keep_prefix(self, request: Request, notify: Callable[[Notice], None]) -> int:
        """Rewind the sequence to what it shares with the prompt; returns how many prompt tokens need no reading."""
        cached = self._cached.pop(request.sequence, Cached([], 0))
        usable = cached.tokens[: cached.n_exact] if request.options.exact else cached.tokens
        shared = _common_prefix(usable, request.prompt[:-1])
        kept = self._target.rewind(request.sequence, shared) if cached.tokens else 0
        self._cached[request.sequence] = Cached(cached.tokens[:kept], min(kept, cached.n_exact))
        if kept < shared and request.sequence not in self._told:
            self._told.add(request.sequence)
            notify(self._reread(len(cached.tokens) - shared))
        return kept

    def _reread(self, n_back: int) -> Notice:
        keeper = "sliding window" if self._target.capabilities.can_rollback else "running state"
        return Notice("reread", f"the model's {keeper} cannot go back {n_back} tokens: reading all again")

    def read(self, request: Request, n_read: int) -> None:
        """So many tokens of the prompt are in the cache now."""
        n_exact = n_read if request.options.exact else self._cached[request.sequence].n_exact
        self._cached[request.sequence] = Cached(request.prompt[:n_read], n_exact)

    def settle(self, job: Job) -> None:
        """After an answer, bring the cache to what plain decoding would have left: all tokens but the last."""
        state = job.decoding
        kept = self._target.rewind(state.id, len(state.tokens) - 1)
        n_exact = kept if state.exact else min(kept, self._cached[state.id].n_exact)
        self._cached[state.id] = Cached(state.tokens[:kept], n_exact)

    @property
    def n_tokens(self) -> int:
        """Of all sequences together."""
        return self._n_cells(list(self._cached))

    def forget_all(self) -> None:
        """The target has an empty cache now."""
        self._cached.clear()
        self._told.clear()

    def release(self, sequence: SequenceId) -> None:
        self._cached.pop(sequence, None)
        self._told.discard(sequence)
        self._target.release(sequence)


def _common_prefix(a: list[int], b: list[int]) -> int:
    n = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        n += 1
    return n
