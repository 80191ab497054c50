"""How often guesses came true, by match length: how much of the text before a guess had stood in that text before.

Whoever guessed, the match length of a place is that of the longest stretch of tokens that ends there and also ends
somewhere earlier in the prompt and the answer. Places count that had verified guesses and were reached, since behind a
wrong token nothing is known; several guesses for one place are one try. Pure.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from itertools import pairwise

from edgespec.draft.automaton import SuffixAutomaton
from edgespec.events import RoundReport
from edgespec.tally import tries

# Match lengths that are counted together start here; the last bucket has no end.
STARTS = (0, 1, 2, 3, 4, 6, 8, 16)


@dataclass(frozen=True, slots=True)
class Matches:
    """Places that had verified guesses, and those where one came true: a count for each bucket of match lengths."""

    n_tried: tuple[int, ...] = (0,) * len(STARTS)
    n_right: tuple[int, ...] = (0,) * len(STARTS)

    def __post_init__(self) -> None:
        """Raises ValueError for counts that cannot be."""
        counts = (*self.n_tried, *self.n_right)
        if not len(self.n_tried) == len(self.n_right) == len(STARTS) or not all(type(n) is int for n in counts):
            raise ValueError(f"these are no counts of {len(STARTS)} buckets")
        if not all(0 <= right <= tried for tried, right in zip(self.n_tried, self.n_right, strict=True)):
            raise ValueError("more guesses came true than there were")

    def __add__(self, other: Matches) -> Matches:
        return Matches(_added(self.n_tried, other.n_tried), _added(self.n_right, other.n_right))


NO_MATCHES = Matches()


def _added(left: Seq[int], right: Seq[int]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(left, right, strict=True))


def names() -> list[str]:
    """Of the buckets: '0', '4-5', '16+'."""
    closed = [str(a) if b == a + 1 else f"{a}-{b - 1}" for a, b in pairwise(STARTS)]
    return [*closed, f"{STARTS[-1]}+"]


def matches(prompt: Seq[int], rounds: Seq[RoundReport]) -> Matches:
    """Of one answer, by the reports of all its rounds in order."""
    if not any(report.tree_tokens for report in rounds):
        return NO_MATCHES
    text = [*prompt, *(token for report in rounds for token in report.tokens)]
    lengths, position = match_lengths(text), len(prompt)
    tried, right = [0] * len(STARTS), [0] * len(STARTS)
    for report in rounds:
        for depth, came_true in enumerate(tries(report)):
            bucket = bisect_right(STARTS, lengths[position + depth]) - 1
            tried[bucket] += 1
            right[bucket] += came_true
        position += len(report.tokens)
    return Matches(tuple(tried), tuple(right))


def match_lengths(text: Seq[int]) -> list[int]:
    """For each place, 0 to len(text) - 1, the match length of the tokens before it."""
    automaton, found = SuffixAutomaton(), []
    for token in text:
        found.append(automaton.match_length)
        automaton.append(token)
    return found
