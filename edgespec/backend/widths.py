"""Finds which verify widths give bitwise equal logits: the classes that exact mode stays inside; and which numbers of
threads do.

llama.cpp picks other kernels for other batch widths, so rows differ in their last bits from width to width; inside a
class they do not. Threads share rows of matrices out among them, which changes no sum; but with flash attention they
also share out the tokens that one row attends to, and then it does. Works on any target; knows nothing of how it
computes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from edgespec.backend.timer import Clock, TimeOver, Timer
from edgespec.spec.ports import Commit, IntArray, Target, VerifyRequest
from edgespec.spec.tree import DraftTree, chain

Classes = tuple[tuple[int, ...], ...]

PROBE_SEQUENCE = -1
# A probe is made once per model, build, machine and settings, in front of a user who waits for an answer.
BUDGET_SECONDS = 30.0
# Estimates come true within some percent on a quiet machine. Where other programs take the cores a probe that was
# thought to keep the budget could take minutes, so it is given up after this many times the budget.
LIMIT_FACTOR = 1.5
# Tokens read before the first passes are timed.
N_TIMED = 32


@dataclass(frozen=True, slots=True)
class Scope:
    """What a probe reads: with every width up to `max_width`, `n_rows` rows around each border.

    borders: context lengths; best multiples of 256, where llama.cpp lets the attention reach over more cells.
    """

    borders: tuple[int, ...]
    max_width: int
    n_rows: int

    def starts(self) -> list[int]:
        """Tokens before the first row, for each border."""
        return [max(0, border - self.n_rows // 2) for border in self.borders]

    @property
    def n_tokens(self) -> int:
        """Longest text that a probe reads."""
        return max(self.starts()) + self.n_rows + self.max_width


# The first one that the budget allows is probed. Slow models get fewer borders and widths, but never fewer than 16
# rows: where two widths differ, a quarter of the rows do or more, so 16 rows overlook it in one probe of a hundred.
SCOPES = (
    Scope(borders=(256, 768), max_width=16, n_rows=48),
    Scope(borders=(256,), max_width=16, n_rows=48),
    Scope(borders=(256,), max_width=16, n_rows=16),
    Scope(borders=(64,), max_width=8, n_rows=16),
    Scope(borders=(16,), max_width=4, n_rows=16),
)
N_TEXT = max(scope.n_tokens for scope in SCOPES)
# Where threads disagree, nearly every row shows it.
THREAD_SCOPE = replace(SCOPES[0], n_rows=16)


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds, measured at the start of a probe: reading one token, a pass of one row, a pass of `widest` rows."""

    read: float
    narrow: float
    wide: float
    widest: int

    def seconds(self, scope: Scope) -> float:
        """What probing the scope will take, passes in between interpolated."""
        slope = (self.wide - self.narrow) / max(1, self.widest - 1)
        passes = sum(-(-scope.n_rows // w) * (self.narrow + slope * (w - 1)) for w in range(1, scope.max_width + 1))
        return sum(start * self.read + passes for start in scope.starts())


@dataclass(frozen=True, slots=True)
class Probed:
    """classes: of widths whose rows agree bit for bit wherever they were compared, largest first; a width that is in
    none was not compared. is_cut: more would have been compared, had it gone faster.
    """

    classes: Classes
    is_cut: bool


# What needs no comparison.
UNCOMPARED: Classes = ((1,),)


def find_classes(
    target: Target, text: IntArray, clock: Clock, budget_seconds: float = BUDGET_SECONDS, scopes: Seq[Scope] = SCOPES
) -> Classes:
    """The classes of `probe_classes`, however little was compared."""
    return probe_classes(target, text, clock, budget_seconds, scopes).classes


def probe_classes(
    target: Target, text: IntArray, clock: Clock, budget_seconds: float = BUDGET_SECONDS, scopes: Seq[Scope] = SCOPES
) -> Probed:
    """Compare what the first of the scopes does that the target has room for, or a later one that the budget allows.

    text: int32 tokens to read, as many as the scopes ask for (N_TEXT). A target that is too slow even for the last
    scope, or that takes more than LIMIT_FACTOR times the budget, counted from the first pass on, gets the one class
    that needs no comparison: (1,). So does one that is too narrow or too short, which is no cut.
    """
    can = target.capabilities
    widest = min(max(scope.max_width for scope in scopes), can.max_rows, can.n_ctx - N_TIMED)
    possible = [scope for scope in scopes if scope.n_tokens <= can.n_ctx]
    if not can.can_rollback or widest < 2 or not possible:
        return Probed(UNCOMPARED, is_cut=False)
    timer = Timer(clock, LIMIT_FACTOR * budget_seconds)
    try:
        speed = _measure(target, text, widest, clock)
        for scope in possible:
            if speed.seconds(scope) <= budget_seconds:
                return Probed(_classes(target, text, scope, widest, timer), is_cut=scope != possible[0])
    except TimeOver:
        pass
    finally:
        target.release(PROBE_SEQUENCE)
    return Probed(UNCOMPARED, is_cut=True)


class Threaded(Target, Protocol):
    def set_threads(self, n: int, n_batch: int = 0) -> None:
        """Threads of every pass from now on."""


@dataclass(frozen=True, slots=True)
class Agreeing:
    """counts: threads whose rows are bit for bit those of the first one. is_cut: others were not compared in full, for
    lack of time, and may be among them too.
    """

    counts: tuple[int, ...]
    is_cut: bool


def agreeing_threads(
    target: Threaded,
    text: IntArray,
    counts: Seq[int],
    widths: Seq[int],
    clock: Clock,
    budget_seconds: float = BUDGET_SECONDS,
    scope: Scope = THREAD_SCOPE,
) -> tuple[int, ...]:
    """The counts of `compare_threads`, however few were compared."""
    return compare_threads(target, text, counts, widths, clock, budget_seconds, scope).counts


def compare_threads(
    target: Threaded,
    text: IntArray,
    counts: Seq[int],
    widths: Seq[int],
    clock: Clock,
    budget_seconds: float = BUDGET_SECONDS,
    scope: Scope = THREAD_SCOPE,
) -> Agreeing:
    """Those of `counts` whose rows at all these widths are bit for bit those of counts[0], prompts read with them too.

    Both borders must be compared, since the second one is where threads begin to share a row's tokens: a target too
    short for them agrees with itself only, and so does one too slow for the budget, which holds for the first count
    too. The target is left with counts[0].
    """
    can = target.capabilities
    if not can.can_rollback or scope.n_tokens > can.n_ctx or max(widths) > can.max_rows:
        return Agreeing(tuple(counts[:1]), is_cut=False)
    agreeing: list[int] = []
    first: list[str] = []
    timer = Timer(clock, budget_seconds)
    try:
        for count in counts:
            # One that has fewer threads takes longer, in proportion at worst.
            needed = timer.spent / max(1, len(agreeing)) * counts[0] / count
            if agreeing and timer.spent + needed > budget_seconds:
                return Agreeing(tuple(agreeing), is_cut=True)
            target.set_threads(count)
            found = _prints(target, text, scope, widths, timer)
            first = first or found
            if found == first:
                agreeing.append(count)
    except TimeOver:
        return Agreeing(tuple(agreeing or counts[:1]), is_cut=True)
    finally:
        target.set_threads(counts[0])
        target.release(PROBE_SEQUENCE)
    return Agreeing(tuple(agreeing), is_cut=False)


def best_class(classes: Classes) -> tuple[int, ...]:
    """The class to be exact in.

    One that holds width 1 leaves plain rounds as they are, so it wins if drafts are possible in it without much
    padding: up to 8 rows, at most 3 of them padding. Otherwise the class with most widths pads least.
    """
    for widths in classes:
        if 1 in widths and all(any(n <= width <= n + 3 for width in widths) for n in range(1, 9)):
            return widths
    return classes[0]


def _measure(target: Target, text: IntArray, widest: int, clock: Clock) -> Speed:
    n_read = min(N_TIMED, target.capabilities.max_chunk)
    started = clock()
    target.extend(PROBE_SEQUENCE, text[:n_read])
    read = (clock() - started) / n_read
    narrow = [_timed_pass(target, text[n_read : n_read + 1], clock) for _ in range(2)][-1]  # the first one warms up
    wide = _timed_pass(target, text[n_read : n_read + widest], clock)
    return Speed(read, narrow, wide, widest)


def _timed_pass(target: Target, tokens: IntArray, clock: Clock) -> float:
    """Seconds of one pass over the tokens, none of which is kept but the first."""
    started = clock()
    _verify(target, tokens)
    seconds = clock() - started
    target.rewind(PROBE_SEQUENCE, target.length(PROBE_SEQUENCE) - 1)
    return seconds


def _classes(target: Target, text: IntArray, scope: Scope, widest: int, timer: Timer) -> Classes:
    widths = range(1, min(widest, scope.max_width) + 1)
    groups: dict[str, list[int]] = {}
    for width, found in zip(widths, _prints(target, text, scope, widths, timer), strict=True):
        groups.setdefault(found, []).append(width)
    return tuple(sorted((tuple(g) for g in groups.values()), key=lambda g: (-len(g), g)))


def _prints(target: Target, text: IntArray, scope: Scope, widths: Seq[int], timer: Timer) -> list[str]:
    """For each width the hashes of its rows at all borders. Raises TimeOver."""
    found = [""] * len(widths)
    for start in scope.starts():
        target.release(PROBE_SEQUENCE)
        for place, width in enumerate(widths):
            _read_to(target, text, start, timer)
            found[place] += _fingerprint(target, text, start, width, scope.n_rows, timer)
    return found


def _fingerprint(target: Target, text: IntArray, start: int, width: int, n_rows: int, timer: Timer) -> str:
    """Hash of the logits rows at positions start .. start + n_rows - 1, read `width` at a time."""
    digest = hashlib.sha256()
    for first in range(start, start + n_rows, width):
        timer.check()
        request = VerifyRequest(PROBE_SEQUENCE, text[first : first + 1], _line(text[first + 1 : first + width]), False)
        rows = target.verify([request], width)[0]
        for row in range(min(width, start + n_rows - first)):
            digest.update(rows.logits(row).tobytes())
        target.commit(PROBE_SEQUENCE, _accept_all(text[first + 1 : first + width + 1]))
    return digest.hexdigest()


def _verify(target: Target, tokens: IntArray) -> None:
    target.verify([VerifyRequest(PROBE_SEQUENCE, tokens[:1], _line(tokens[1:]), False)], len(tokens))[0].logits(0)
    target.commit(PROBE_SEQUENCE, _accept_all(tokens[1:2] if len(tokens) > 1 else tokens))


def _line(tokens: IntArray) -> DraftTree:
    return chain(tokens, np.ones(len(tokens), np.float32))


def _read_to(target: Target, text: IntArray, length: int, timer: Timer) -> None:
    """Bring the cache to exactly the first `length` tokens, read in the same chunks whenever it must be read again."""
    kept = target.rewind(PROBE_SEQUENCE, length)
    if kept not in (0, length):
        kept = target.rewind(PROBE_SEQUENCE, 0)
    step = target.capabilities.max_chunk
    for first in range(kept, length, step):
        timer.check()
        target.extend(PROBE_SEQUENCE, text[first : min(first + step, length)])


def _accept_all(tokens: IntArray) -> Commit:
    return Commit(np.arange(len(tokens) - 1, dtype=np.int32), tokens)
