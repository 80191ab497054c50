"""A target without a neural net, for tests and demonstrations: logits are hashed from what its cache really holds.

`ToyModel` is the truth, a pure function of the text. `ToyTarget` computes the same from the cells of a pretended KV
cache, so a stale, missing or misplaced cell changes the logits; and it refuses, with ValueError, every call that would
corrupt or abort a real one. Knows no drafter, no sampler and no text.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

import numpy as np

from edgespec.errors import StaleRows
from edgespec.spec import noise
from edgespec.spec.ports import Capabilities, Commit, FloatArray, IntArray, Rows, SequenceId, VerifyRequest
from edgespec.spec.tree import DraftTree, check_tree, depths, leaves

_MASK = (1 << 64) - 1
# Larger than float32's own rounding, far smaller than typical logit gaps: it flips near-ties and nothing else.
_ROUNDING = 1e-3


@dataclass(frozen=True, slots=True)
class Cell:
    """One token in the cache. shift: how many places after its position it sits, 0 unless its branch was a side one."""

    token: int
    position: int
    shift: int = 0


@dataclass(frozen=True, slots=True)
class ToyModel:
    """Logits as a hash of the last `order` tokens, spread over [-scale, scale].

    n_levels > 0 rounds them to that many values, so that ties abound; `masked` is the share of tokens at -inf.
    """

    n_vocab: int = 16
    order: int = 2
    scale: float = 3.0
    seed: int = 0
    n_levels: int = 0
    masked: float = 0.0

    def logits(self, text: Seq[int]) -> FloatArray:
        """float32[n_vocab]: the row that belongs to the last token of `text`."""
        recent = text[max(0, len(text) - self.order) :]
        return self.row([(len(recent) - 1 - i, token) for i, token in enumerate(recent)])

    def row(self, context: list[tuple[int, int]]) -> FloatArray:
        """float32[n_vocab] after a context of (distance to the last token, token) pairs, in any order."""
        key = _hash(self.seed, context)
        ids = np.arange(self.n_vocab, dtype=np.int32)
        height = noise.uniform(key, ids)
        if self.n_levels:
            height = np.floor(height * self.n_levels) / self.n_levels
        row = ((2.0 * height - 1.0) * self.scale).astype(np.float32)
        chance = noise.uniform(noise.mix(key), ids)
        row[chance < min(self.masked, float(chance.max()))] = -np.inf  # one token at least stays
        return row


class ToyRows:
    """ports.Rows of one request; read-only, and StaleRows once their target has run another pass."""

    def __init__(self, target: ToyTarget, rows: list[FloatArray]) -> None:
        self._target = target
        self._pass = target.n_passes
        self._rows = rows
        for row in rows:
            row.flags.writeable = False

    def logits(self, row: int) -> FloatArray:
        if self._target.n_passes != self._pass:
            raise StaleRows(f"these rows belong to pass {self._pass}, the target is at {self._target.n_passes}")
        _require(0 <= row < len(self._rows), f"row {row} of {len(self._rows)}")
        return self._rows[row]


@dataclass(frozen=True, slots=True)
class _Open:
    """A verify that waits for its commit: the pending cells, then one per node."""

    request: VerifyRequest
    pending: list[Cell]
    nodes: list[Cell]


@dataclass(slots=True)
class _State:
    """length: cached tokens, those that a sliding window forgot included. expected: what the last commit returned."""

    cells: list[Cell] = field(default_factory=list)
    length: int = 0
    open: _Open | None = None
    expected: list[int] | None = None


class ToyTarget:
    """ports.Target over a ToyModel.

    window: how far back a row may look, 0 for everywhere; a windowed cache forgets what lies more than window +
    max_rows behind, and a rewind that needs forgotten cells clears the sequence and returns 0.
    rounding: logits depend a little, as those of real kernels do, on the width class of their pass (a width in no class
    is a class of its own) and on cells that sit out of place, so that exact decoding has something to undo.
    n_passes: forward passes so far (extend and verify).
    """

    def __init__(
        self, model: ToyModel, capabilities: Capabilities | None = None, window: int = 0, rounding: bool = False
    ) -> None:
        self.model = model
        self.capabilities = capabilities or Capabilities(
            n_ctx=4096, n_vocab=model.n_vocab, max_rows=64, max_chunk=64, max_leaves=16, can_rollback=True
        )
        self.n_passes = 0
        _require(self.capabilities.n_vocab == model.n_vocab, "capabilities with another vocabulary")
        _require(window == 0 or window >= model.order, f"a window of {window} below the order {model.order}")
        self._window = window
        self._rounding = rounding
        self._states: dict[SequenceId, _State] = {}

    def extend(self, sequence: SequenceId, tokens: IntArray) -> None:
        """See ports.Target; any text may be continued with any other."""
        state = self._idle(sequence)
        _require(1 <= len(tokens) <= self.capabilities.max_chunk, f"a chunk of {len(tokens)} tokens")
        self._check_text(state, tokens, len(tokens))
        self.n_passes += 1
        state.expected = None
        self._keep(state, _in_line(state.length, tokens))

    def verify(self, requests: Seq[VerifyRequest], width: int) -> list[Rows]:
        """See ports.Target. `pending` must be what the last commit returned, unless extend or rewind came between."""
        n_rows = sum(len(request.pending) + len(request.tree) for request in requests)
        _require(n_rows <= width <= self.capabilities.max_rows, f"a width of {width} for {n_rows} rows")
        _require(len({request.sequence for request in requests}) == len(requests), "a sequence twice in one pass")
        states = [self._idle(request.sequence) for request in requests]
        for state, request in zip(states, requests, strict=True):
            self._check_request(state, request)
        self.n_passes += 1
        return [self._forward(state, request, width) for state, request in zip(states, requests, strict=True)]

    def commit(self, sequence: SequenceId, commit: Commit) -> IntArray:
        """See ports.Target. With `canonical`, accepted nodes keep their cells as far as they are nodes 0, 1, 2, ..."""
        state = self._states.get(sequence, _State())
        if state.open is None:
            raise ValueError(f"a commit without a verify on sequence {sequence}")
        done = state.open
        path: list[int] = commit.path.tolist()
        _check_commit(done.request.tree, path, commit.tokens.tolist())
        n_kept = len(path)
        if done.request.canonical:
            n_kept = next((i for i, node in enumerate(path) if node != i), n_kept)
        state.open = None
        self._keep(state, [*done.pending, *(done.nodes[node] for node in path[:n_kept])])
        state.expected = commit.tokens[n_kept:].tolist()
        pending: IntArray = commit.tokens[n_kept:].copy()
        return pending

    def rewind(self, sequence: SequenceId, length: int) -> int:
        """See ports.Target; what cannot be rolled back is cleared and 0 returned."""
        state = self._idle(sequence)
        state.expected = None
        if length >= state.length:
            return state.length
        lowest_needed = max(0, length - self._window) if self._window else 0
        if not self.capabilities.can_rollback or state.cells[0].position > lowest_needed:
            length = 0
        state.cells = [cell for cell in state.cells if cell.position < length]
        state.length = length
        return length

    def length(self, sequence: SequenceId) -> int:
        """Tokens of this sequence in the cache, 0 if it is unknown."""
        return self._states.get(sequence, _State()).length

    def release(self, sequence: SequenceId) -> None:
        """Forget the sequence, known or not, even with a commit outstanding."""
        self._states.pop(sequence, None)

    def cells(self, sequence: SequenceId) -> tuple[Cell, ...]:
        """What the cache holds of a sequence, by ascending position."""
        return tuple(self._states.get(sequence, _State()).cells)

    def _idle(self, sequence: SequenceId) -> _State:
        state = self._states.setdefault(sequence, _State())
        _require(state.open is None, f"sequence {sequence} while its verify awaits a commit")
        return state

    def _check_text(self, state: _State, tokens: IntArray, n_rows: int) -> None:
        known = bool(((tokens >= 0) & (tokens < self.capabilities.n_vocab)).all())
        _require(known, f"token ids {tokens.tolist()} beyond a vocabulary of {self.capabilities.n_vocab}")
        _require(state.length + n_rows <= self.capabilities.n_ctx, f"{state.length} + {n_rows} cells")

    def _check_request(self, state: _State, request: VerifyRequest) -> None:
        tree, pending = request.tree, request.pending
        _require(len(pending) >= 1, "no pending token")
        _require(state.expected in (None, pending.tolist()), f"{pending.tolist()} pending instead of {state.expected}")
        self._check_text(state, pending, len(pending) + len(tree))
        check_tree(tree, self.capabilities.n_vocab)
        _require(len(leaves(tree)) <= self.capabilities.max_leaves, f"{len(leaves(tree))} leaves")
        _require(len(tree) == 0 or self.capabilities.can_rollback, "a tree without rollback")

    def _forward(self, state: _State, request: VerifyRequest, width: int) -> ToyRows:
        pending = _in_line(state.length, request.pending)
        branches = [[*state.cells, *pending]]
        nodes: list[Cell] = []
        last = pending[-1].position
        tree = request.tree
        shape = zip(tree.tokens.tolist(), tree.parents.tolist(), depths(tree).tolist(), strict=True)
        for node, (token, parent, depth) in enumerate(shape):
            nodes.append(Cell(token, last + depth, shift=node + 1 - depth))
            branches.append([*branches[parent + 1], nodes[node]])
        state.open = _Open(request, pending, nodes)
        return ToyRows(self, [self._row(branch, width) for branch in branches])

    def _row(self, branch: list[Cell], width: int) -> FloatArray:
        """The logits of the last cell of a branch, from those that are less than `order` behind it."""
        here = branch[-1].position
        # Twice the order, so that a cell too many is seen as well.
        seen = [cell for cell in branch[-2 * self.model.order :] if here - cell.position < self.model.order]
        row = self.model.row([(here - cell.position, cell.token) for cell in seen])
        if self._rounding:
            key = _hash(self._width_class(width), [(cell.token, cell.shift) for cell in seen])
            row += np.float32(_ROUNDING) * noise.uniform(key, np.arange(len(row))).astype(np.float32)
        return row

    def _width_class(self, width: int) -> int:
        return next((min(widths) for widths in self.capabilities.width_classes if width in widths), width)

    def _keep(self, state: _State, cells: list[Cell]) -> None:
        state.cells += cells
        state.length += len(cells)
        if self._window:
            lowest = state.length - self._window - self.capabilities.max_rows
            state.cells = [cell for cell in state.cells if cell.position >= lowest]
        positions = [cell.position for cell in state.cells]
        _require(positions == list(range(state.length - len(positions), state.length)), "a gap in the cache")


def _hash(seed: int, pairs: list[tuple[int, int]]) -> int:
    state = noise.mix(seed & _MASK)
    for pair in sorted(pairs):
        for part in pair:
            state = noise.mix(state ^ noise.mix((part + 1) & _MASK))
    return state


def _in_line(start: int, tokens: IntArray) -> list[Cell]:
    return [Cell(token, start + i) for i, token in enumerate(tokens.tolist())]


def _check_commit(tree: DraftTree, path: list[int], tokens: list[int]) -> None:
    _require(len(tokens) == len(path) + 1, f"{len(tokens)} tokens for a path of {len(path)} nodes")
    parents: list[int] = tree.parents.tolist()
    for parent, node, token in zip([-1, *path], path, tokens, strict=False):
        linked = 0 <= node < len(tree) and parents[node] == parent and tree.tokens[node] == token
        _require(linked, f"the path {path} with tokens {tokens}")


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(f"the target cannot take {what}")
