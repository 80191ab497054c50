"""The sockets between the round loop and everything it drives: targets, drafters, verifiers, policies.

Backends and drafters depend on this module, never the other way round. A sequence is named by a small integer that the
engine hands out; token ids are always the target's.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from enum import Flag, auto
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from edgespec.spec.tree import DraftTree

IntArray = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float32]
SequenceId = int

# Conversations at a time, where nobody says how many: their caches share one context.
USUAL_SEQUENCES = 4


class Needs(Flag):
    """What a drafter reads when it observes a commit, so that the target provides it."""

    TOKENS = auto()
    ROWS = auto()
    HIDDEN = auto()


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a target can do now.

    n_ctx: cells a sequence may fill. max_rows: rows of one verify call, all sequences and padding together.
    max_chunk: tokens of one extend call. max_leaves: leaves one tree may have, given the ids that are left.
    can_rollback: False for recurrent and hybrid models, which then decode plainly.
    width_classes: sets of verify widths whose rows were found bitwise equal to each other; empty when not probed.
    max_sequences: sequences that may be cached at a time, running and idle.
    """

    n_ctx: int
    n_vocab: int
    max_rows: int
    max_chunk: int
    max_leaves: int
    can_rollback: bool
    width_classes: tuple[tuple[int, ...], ...] = ()
    max_sequences: int = USUAL_SEQUENCES


@dataclass(frozen=True, slots=True)
class Plan:
    """What one drafter may propose this round. A zero `max_nodes` means: do not draft.

    deadline_seconds: counted from the call of `propose`.
    min_survival: the causal stop rule. A drafter that pays for each step stops where survival falls below it: neither
    that node nor any after it is worth its row and its step. It is decided before the node's token is drawn.
    """

    max_nodes: int
    max_leaves: int = 1
    deadline_seconds: float = float("inf")
    min_survival: float = 0.0


@dataclass(frozen=True, slots=True)
class Commit:
    """The verdict on one tree.

    path: int32[k], the accepted nodes, root side first. tokens: int32[k + 1], their tokens and then the bonus, the
    target's own next token. When a limit or an end token cut the walk, the last accepted token takes the bonus' place.
    """

    path: IntArray
    tokens: IntArray

    @property
    def bonus(self) -> int:
        return int(self.tokens[-1])


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """One sequence's share of a verify pass: `pending` tokens not yet in the KV cache (at least one), then the tree.

    canonical: after a side branch is accepted, its tokens are handed back as pending instead of keeping their cells, so
    that the cache looks exactly as plain decoding would have left it.
    """

    sequence: SequenceId
    pending: IntArray
    tree: DraftTree
    canonical: bool


class Rows(Protocol):
    """Logits of one request: row 0 belongs to the last pending token, row i + 1 to node i of its tree."""

    def logits(self, row: int) -> FloatArray:
        """float32[n_vocab], valid until the target's next pass (extend or verify); raises StaleRows after it."""


class Target(Protocol):
    """The model whose words count. Not thread-safe: one owner thread."""

    @property
    def capabilities(self) -> Capabilities: ...

    def extend(self, sequence: SequenceId, tokens: IntArray) -> None:
        """Read one chunk of at most `max_chunk` tokens into the KV cache, without logits."""

    def verify(self, requests: Seq[VerifyRequest], width: int) -> list[Rows]:
        """ONE forward over [pending + tree] of every request, padded with discarded rows to `width` rows in all."""

    def commit(self, sequence: SequenceId, commit: Commit) -> IntArray:
        """Keep the accepted nodes of the last verify, drop the rest; return what is committed but not in the cache.

        The result ends in the bonus; it is longer only after a side branch of a canonical request. Afterwards
        cache length == committed tokens - len(result).
        """

    def rewind(self, sequence: SequenceId, length: int) -> int:
        """Drop cached tokens beyond `length`; return the length really kept, which a sliding window may force lower."""

    def length(self, sequence: SequenceId) -> int:
        """Tokens of this sequence in the cache."""

    def release(self, sequence: SequenceId) -> None:
        """Forget the sequence and free its cells. Releasing an unknown sequence is not an error."""


class Drafter(Protocol):
    """Guesses tokens. It sees every commit, also those of rounds it did not take part in."""

    @property
    def name(self) -> str: ...

    @property
    def needs(self) -> Needs: ...

    def begin(self, sequence: SequenceId, prompt: IntArray) -> None:
        """A request starts; `prompt` is everything the target has been given."""

    def propose(self, sequence: SequenceId, plan: Plan) -> DraftTree:
        """A tree of at most `plan.max_nodes` nodes and `plan.max_leaves` leaves; it may be empty."""

    def behind(self, sequence: SequenceId) -> int:
        """Committed tokens it must read before its next proposal; 0 for one that reads nothing, or as it goes."""

    def anticipate(self, sequence: SequenceId, tree: DraftTree) -> None:
        """Called right before the target's pass: work on likely outcomes may start now."""

    def observe(self, sequence: SequenceId, commit: Commit, rows: Rows, nodes: IntArray) -> None:
        """Learn a commit. `nodes[i]` is the row-less node index of own node i in the verified tree, -1 if cut.

        Rows die at the target's next pass, so copy what is needed later.
        """

    def end(self, sequence: SequenceId) -> None:
        """The request is over; forget it. Ending an unknown sequence is not an error."""


@runtime_checkable
class Follower(Protocol):
    """What a drafter may be beside: one that knows at once that it has nothing to propose. It need then not be asked,
    which on most texts is most rounds.
    """

    def is_silent(self, sequence: SequenceId, least_claim: float = 0.0) -> bool:
        """Would its next proposal be empty, whatever the plan, or begin with a guess of less survival than that? Asked
        once a round. Now and then it may deny the latter, since guesses that nobody hears teach nothing.
        """

    def follow(self, sequence: SequenceId, tokens: Seq[int], least_claim: float = 0.0) -> bool:
        """Instead of `observe` after a round without any guess: these were committed. Returns `is_silent`."""


class TokenLaw(Protocol):
    """The target's own sampler: a function of logits and of the tokens before, and of nothing else."""

    def choose(self, logits: FloatArray, history: Seq[int]) -> int:
        """The next token after `history` (prompt and output). Noise is keyed by the position, len(history)."""


class Verifier(Protocol):
    """Decides how much of a tree is the target's own text; refuses a tree whose mode it cannot treat exactly."""

    def walk(
        self, tree: DraftTree, rows: Rows, law: TokenLaw, history: Seq[int], limit: int, end_tokens: frozenset[int]
    ) -> Commit:
        """Emit at least 1 and at most `limit` tokens; an end token is emitted and ends the walk."""
