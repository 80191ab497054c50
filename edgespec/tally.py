"""What came of the drafts of an answer, round by round: for panels that show an answer while it is made.

Contract: counts over RoundReports, nothing else. Knows no engine and no display.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from edgespec.events import RoundReport

# The parent of a tree's first nodes: the last committed token.
_ROOT = -1


@dataclass(frozen=True, slots=True)
class Depth:
    """Guesses so many tokens ahead: rounds that had one where everything before it was right, and those where one of
    them was right, too.
    """

    n_tried: int
    n_accepted: int

    @property
    def acceptance(self) -> float:
        return self.n_accepted / self.n_tried if self.n_tried else 0.0


@dataclass(frozen=True, slots=True)
class Tallied:
    """n_passes: target passes after the prompt. n_by_source: accepted tokens by drafter. by_depth: the first is that
    of the guess right after the last token. last: the last round that drafted; None if none did.
    """

    n_passes: int = 0
    n_tokens: int = 0
    n_drafted: int = 0
    n_accepted: int = 0
    n_by_source: tuple[tuple[str, int], ...] = ()
    by_depth: tuple[Depth, ...] = ()
    last: RoundReport | None = None

    @property
    def tokens_per_pass(self) -> float:
        return self.n_tokens / self.n_passes if self.n_passes else 0.0


def tries(report: RoundReport) -> Iterator[bool]:
    """Of the places for which a round had guesses, the first first: did one of them come true? It ends with the first
    that did not, since of those behind it nothing is known.
    """
    parents = set(report.tree_parents)
    for node, source in zip((_ROOT, *report.path), report.sources, strict=True):
        if node not in parents:
            return
        yield source != ""  # the last token of an answer was guessed, perhaps, though it is on no path


class RoundTally:
    """Of one answer, or of several in a row. Not safe to add to from two threads; a `Tallied` may go anywhere."""

    def __init__(self) -> None:
        self._n_passes = self._n_tokens = self._n_drafted = self._n_accepted = 0
        self._sources: Counter[str] = Counter()
        self._tried: list[int] = []
        self._accepted: list[int] = []
        self._last: RoundReport | None = None

    def add(self, report: RoundReport) -> None:
        self._n_passes += 1
        self._n_tokens += len(report.tokens)
        self._n_drafted += report.n_drafted
        self._n_accepted += report.n_accepted
        self._sources.update(source for source in report.sources if source)
        if report.tree_parents:
            self._last = report
            self._deepen(report)

    def _deepen(self, report: RoundReport) -> None:
        for depth, came_true in enumerate(tries(report)):
            if depth == len(self._tried):
                self._tried.append(0)
                self._accepted.append(0)
            self._tried[depth] += 1
            self._accepted[depth] += came_true

    def tallied(self) -> Tallied:
        depths = tuple(Depth(*one) for one in zip(self._tried, self._accepted, strict=True))
        return Tallied(
            self._n_passes,
            self._n_tokens,
            self._n_drafted,
            self._n_accepted,
            tuple(self._sources.most_common()),
            depths,
            self._last,
        )
