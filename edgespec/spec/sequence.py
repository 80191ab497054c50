"""One request in flight: its committed tokens, its law, its limits and its counts. Knows no model and no text."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from edgespec.errors import EdgeSpecError
from edgespec.events import Finish, RoundReport
from edgespec.spec.ports import IntArray, SequenceId, TokenLaw
from edgespec.spec.scores import Scorer


@dataclass(slots=True)
class Counts:
    """Sums over the rounds of one request. n_emitted: tokens, an end token included."""

    passes: int = 0
    n_emitted: int = 0
    n_drafted: int = 0
    n_accepted: int = 0
    n_padded: int = 0
    accepted_by: dict[str, int] = field(default_factory=dict)

    def add(self, report: RoundReport) -> None:
        self.passes += 1
        self.n_emitted += len(report.tokens)
        self.n_drafted += report.n_drafted
        self.n_accepted += report.n_accepted
        self.n_padded += report.n_padded
        for source in report.sources:
            if source:
                self.accepted_by[source] = self.accepted_by.get(source, 0) + 1


@dataclass(slots=True)
class SequenceState:
    """Mutable state of one request, owned by the thread that runs its rounds.

    tokens: prompt and output, committed. pending: the committed tokens that are not in the target's cache, at least
    one.
    width_class: the verify widths an exact request must stay inside; empty in fast mode.
    silent: whoever drafts for it has nothing to propose in the next round, for certain.
    failure: why no token could be chosen. Such a sequence cannot go on, and its cache is to be released.
    scorer: takes down log probabilities; None where nobody asked for them.
    """

    id: SequenceId
    tokens: list[int]
    n_prompt: int
    pending: IntArray
    law: TokenLaw
    max_tokens: int
    end_tokens: frozenset[int]
    width_class: tuple[int, ...] = ()
    finish: Finish | None = None
    silent: bool = False
    failure: EdgeSpecError | None = None
    counts: Counts = field(default_factory=Counts)
    scorer: Scorer | None = None

    @classmethod
    def start(
        cls,
        sequence: SequenceId,
        prompt: list[int],
        law: TokenLaw,
        max_tokens: int,
        end_tokens: frozenset[int],
        width_class: tuple[int, ...] = (),
    ) -> SequenceState:
        """A request whose prompt is in the cache but for its last token."""
        pending = np.array(prompt[-1:], np.int32)
        return cls(sequence, list(prompt), len(prompt), pending, law, max_tokens, end_tokens, width_class)

    @property
    def exact(self) -> bool:
        return bool(self.width_class)

    @property
    def n_output(self) -> int:
        return len(self.tokens) - self.n_prompt

    @property
    def remaining(self) -> int:
        return self.max_tokens - self.n_output

    def accept(self, tokens: list[int], pending: IntArray) -> None:
        """Take over a commit's tokens and end the request where a token or a limit says so."""
        self.tokens += tokens
        self.pending = pending
        if tokens[-1] in self.end_tokens:
            self.finish = Finish.STOP
        elif self.remaining <= 0:
            self.finish = Finish.LENGTH
