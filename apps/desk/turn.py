"""A question and its answer while it is made: text by drafter, rounds, what came of it. Plain data of one thread."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from edgespec.events import Completion, Finish, Piece, RoundReport
from edgespec.tally import RoundTally, Tallied


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of answer of one source, "" for the target itself. token: of the answer, that it begins with."""

    text: str
    source: str
    token: int


@dataclass(frozen=True, slots=True)
class Drafted:
    """A round, with its draft's tokens as text."""

    report: RoundReport
    labels: tuple[str, ...]

    @property
    def source(self) -> str:
        """Who guessed what was accepted; "" when nothing was."""
        return "+".join(dict.fromkeys(source for source in self.report.sources if source))


@dataclass(slots=True, eq=False)
class Turn:
    """Over once it has a completion or an error. why: what came of its drafts, and what kept it from more, a sentence
    each.
    """

    question: str
    model: str = ""
    spans: list[Span] = field(default_factory=list)
    rounds: list[Drafted] = field(default_factory=list)
    completion: Completion | None = None
    error: str = ""
    why: tuple[str, ...] = ()
    n_tokens: int = 0
    decode_seconds: float = 0.0
    _tally: RoundTally = field(default_factory=RoundTally)
    _ends: list[int] = field(default_factory=list)  # tokens after each round

    @property
    def running(self) -> bool:
        return self.completion is None and not self.error

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)

    @property
    def stopped(self) -> bool:
        return self.completion is not None and self.completion.finish is Finish.CANCELLED

    @property
    def sources(self) -> tuple[str, ...]:
        """Drafters that had a guess accepted, in the order of their first one."""
        return tuple(dict.fromkeys(span.source for span in self.spans if span.source))

    def add_piece(self, piece: Piece) -> None:
        if piece.text:
            self.spans.append(Span(piece.text, piece.source, self.n_tokens))
        self.n_tokens += len(piece.token_ids)

    def add_round(self, drafted: Drafted) -> None:
        self._tally.add(drafted.report)
        self.rounds.append(drafted)
        self._ends.append((self._ends[-1] if self._ends else 0) + len(drafted.report.tokens))
        self.decode_seconds += drafted.report.seconds

    def end(self, completion: Completion, why: tuple[str, ...]) -> None:
        self.completion = completion
        self.why = why

    def fail(self, sentence: str) -> None:
        self.error = sentence

    def tallied(self) -> Tallied:
        return self._tally.tallied()

    def last_draft(self) -> Drafted | None:
        return next((one for one in reversed(self.rounds) if one.labels), None)

    def round_at(self, token: int) -> Drafted | None:
        """The round that decided the answer's token of this number; None while that is unknown."""
        at = bisect_right(self._ends, token)
        return self.rounds[at] if at < len(self.rounds) else None
