"""Which tokens each sequence has in the target's cache, and who must give way when it is full. Used by the worker
only.
"""

from __future__ import annotations

from collections.abc import Callable

from edgespec.engine.job import Job, Request
from edgespec.events import Notice
from edgespec.spec.ports import SequenceId, Target

# Idle conversations beyond this many are forgotten, oldest first; they are read again when they go on.
MAX_IDLE = 3


class CacheBook:
    """The order of `_tokens` is the order of last use."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._tokens: dict[SequenceId, list[int]] = {}

    def reserve(self, request: Request, running: list[Request]) -> bool:
        """Whether the request fits beside those that run; idle caches are dropped to make room."""
        n_ctx = self._target.capabilities.n_ctx
        busy = {one.sequence for one in running}
        needed = self._extent(request, n_ctx) + sum(self._extent(one, n_ctx) for one in running)
        if running and (needed > n_ctx or request.sequence in busy):
            return False
        idle = [s for s in self._tokens if s not in busy and s != request.sequence]
        while idle and (needed + sum(len(self._tokens[s]) for s in idle) > n_ctx or len(idle) > MAX_IDLE):
            self.release(idle.pop(0))
        return True

    @staticmethod
    def _extent(request: Request, n_ctx: int) -> int:
        return min(n_ctx, len(request.prompt) + request.options.max_tokens)

    def keep_prefix(self, request: Request, notify: Callable[[Notice], None]) -> int:
        """Rewind the sequence to what it shares with the prompt; returns how many prompt tokens need no reading."""
        cached = self._tokens.pop(request.sequence, [])
        shared = _common_prefix(cached, request.prompt[:-1])
        kept = self._target.rewind(request.sequence, shared) if cached else 0
        self._tokens[request.sequence] = cached[:kept]
        if kept < shared:
            notify(
                Notice(
                    "reread",
                    f"the model's sliding window cannot go back {len(cached) - shared} tokens: reading all again",
                )
            )
        return kept

    def read(self, sequence: SequenceId, tokens: list[int]) -> None:
        """These are in the cache now."""
        self._tokens[sequence] = tokens

    def settle(self, job: Job) -> None:
        """After an answer, bring the cache to what plain decoding would have left: all tokens but the last."""
        state = job.decoding
        kept = self._target.rewind(state.id, len(state.tokens) - 1)
        self._tokens[state.id] = state.tokens[:kept]

    def release(self, sequence: SequenceId) -> None:
        self._tokens.pop(sequence, None)
        self._target.release(sequence)


def _common_prefix(a: list[int], b: list[int]) -> int:
    n = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        n += 1
    return n
