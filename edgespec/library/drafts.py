"""Target and draft in one memory: which draft, and how long a context it gets, beside a target that fits already.

A draft's context is its own, never the target's. Over budget it becomes shorter; then the next, smaller draft is tried;
then there is none. Every step keeps its numbers. Where the two run in different memories, the target takes 0 bytes of
the draft's. Opens no file and measures nothing.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from enum import Enum

from edgespec.events import Notice
from edgespec.library.header import GgufHeader
from edgespec.library.memory import CONTEXT_STEP, CacheShape, MemoryEstimate, budget, estimate, fitting_context
from edgespec.library.units import readable_bytes
from edgespec.stepfile import StepFile

# Beside weights, KV cache and logits, in a process that runs a target already. Measured with SmolLM2: a second model of
# llama.cpp 31 MB; ONNX Runtime with its library 66 MB.
GGUF_FIXED_BYTES = 64 << 20
STEP_FIXED_BYTES = 128 << 20
# More where a draft has a process of its own: interpreter and numpy, measured 22 MB that nobody shares, 39 MB in all.
CHILD_FIXED_BYTES = 48 << 20
# Rows of one run of a draft: a chain's tokens that were accepted meanwhile go along with its next one.
DRAFT_ROWS = 16
# Growing buffers of a step model are copied, so that for a moment there are the old ones and the new.
STEP_COPIES = 2


class StepDown(str, Enum):
    """What was given up for want of memory; also the code of its notice."""

    SHORTER = "draft-context"
    SMALLER = "draft-size"
    DRAFT_FREE = "draft-free"


@dataclass(frozen=True, slots=True)
class DraftNeed:
    """n_ctx: tokens of context that the draft is wished to have, and gets at most."""

    name: str
    need: MemoryEstimate
    n_ctx: int

    @property
    def total_bytes(self) -> int:
        return self.need.total_bytes(self.n_ctx)


@dataclass(frozen=True, slots=True)
class Retreat:
    """One step down. `given_up` needs more than the `room_bytes` that the target leaves; `instead` is what is tried
    next, or taken, None for no draft.
    """

    kind: StepDown
    given_up: DraftNeed
    instead: DraftNeed | None
    room_bytes: int

    def notice(self) -> Notice:
        lost = self.given_up
        need, room = readable_bytes(lost.total_bytes), readable_bytes(self.room_bytes)
        why = f"the draft {lost.name} needs {need} for {lost.n_ctx} tokens of context, and {room} are left for it"
        return Notice(self.kind.value, f"{why}: {self._outcome()}")

    def _outcome(self) -> str:
        if self.instead is None:
            return "drafting without a second model"
        if self.kind is StepDown.SHORTER:
            return f"it gets {self.instead.n_ctx} tokens"
        return f"trying {self.instead.name}"


@dataclass(frozen=True, slots=True)
class Together:
    """What runs beside the target. draft: with the context it gets; None for none. budget_bytes: of the free memory,
    margin taken off.
    """

    target_bytes: int
    budget_bytes: int
    draft: DraftNeed | None
    steps: tuple[Retreat, ...]

    @property
    def total_bytes(self) -> int:
        return self.target_bytes + (self.draft.total_bytes if self.draft else 0)


def gguf_draft(header: GgufHeader, shape: CacheShape, n_ctx: int, name: str = "") -> DraftNeed:
    """A GGUF that drafts, named as its file unless a name is given."""
    need = estimate(header, shape)
    buffers = GGUF_FIXED_BYTES + 2 * 4 * header.n_vocab * shape.n_rows
    return DraftNeed(name or header.path.stem, replace(need, buffers_bytes=buffers), n_ctx)


def step_draft(name: str, file: StepFile, folder_bytes: int, n_ctx: int) -> DraftNeed:
    """A step model: its folder, and keys and values as float32. `n_ctx` is cut to what the model can have."""
    per_token = STEP_COPIES * 2 * 4 * file.n_blocks * file.n_kv_heads * file.head_dim
    need = MemoryEstimate(folder_bytes, per_token, 0, 0, STEP_FIXED_BYTES)
    return DraftNeed(name, need, min(n_ctx, file.n_ctx))


def in_child(draft: DraftNeed) -> DraftNeed:
    """The same draft in a process of its own."""
    return replace(draft, need=replace(draft.need, buffers_bytes=draft.need.buffers_bytes + CHILD_FIXED_BYTES))


def on_gpu(draft: DraftNeed) -> DraftNeed:
    """What a draft that fits into a GPU's own memory takes of the host's: its process."""
    return replace(draft, need=MemoryEstimate(0, 0, 0, 0, GGUF_FIXED_BYTES + CHILD_FIXED_BYTES))


def plan_together(target_bytes: int, drafts: Seq[DraftNeed], available_bytes: int) -> Together:
    """The first of `drafts`, the most wanted first, that fits beside the target, with the longest context that does.

    target_bytes: what the target takes of the same memory. available_bytes: free before anything is loaded.
    """
    most = budget(available_bytes)
    room = max(0, most - target_bytes)
    steps: list[Retreat] = []
    for place, draft in enumerate(drafts):
        if draft.total_bytes <= room:
            return Together(target_bytes, most, draft, tuple(steps))
        n_ctx = fitting_context(draft.need, draft.n_ctx, room)
        if n_ctx:
            shorter = replace(draft, n_ctx=n_ctx)
            steps.append(Retreat(StepDown.SHORTER, draft, shorter, room))
            return Together(target_bytes, most, shorter, tuple(steps))
        following = drafts[place + 1] if place + 1 < len(drafts) else None
        kind = StepDown.SMALLER if following else StepDown.DRAFT_FREE
        # No context helps, so the shortest one tells how much is missing.
        shortest = replace(draft, n_ctx=min(draft.n_ctx, 2 * CONTEXT_STEP))
        steps.append(Retreat(kind, shortest, following, room))
    return Together(target_bytes, most, None, tuple(steps))
