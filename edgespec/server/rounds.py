"""What came of an answer's drafts so far, as the JSON that a stream carries to a client which asked for it.

Contract: reports are handed over by the engine's thread, which waits for nobody; all else is done by the one that asks.
Knows no HTTP.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping

from edgespec.choice import DraftChoice
from edgespec.doctor.why import why
from edgespec.events import RoundReport
from edgespec.server.bodies import JsonObject
from edgespec.spec.policy import Reason
from edgespec.tally import RoundTally, Tallied
from edgespec.text.vocab import Vocabulary

# How often each reason decided about a draft, ever since the engine began; None when nothing was measured.
Reasons = Mapping[Reason, int] | None


class RoundFeed:
    """Of one answer. `reasons` is asked when it begins and when it is over."""

    def __init__(self, vocab: Vocabulary, choice: DraftChoice, reasons: Callable[[], Reasons]) -> None:
        self._vocab = vocab
        self._choice = choice
        self._reasons = reasons
        self._before = reasons() or {}
        self._new: deque[RoundReport] = deque()
        self._tally = RoundTally()
        self._seconds = 0.0

    def add(self, report: RoundReport) -> None:
        """For the engine's thread."""
        self._new.append(report)

    def news(self) -> JsonObject | None:
        """{"rounds": ...} of the answer so far; None when nothing has come since it was asked last."""
        return {"rounds": self._body(self._tallied())} if self._new else None

    def whole(self) -> JsonObject:
        """{"rounds": ..., "why": one sentence} of an answer that is over."""
        tallied = self._tallied()
        return {"rounds": self._body(tallied), "why": why(self._choice, tallied, self._since())}

    def _tallied(self) -> Tallied:
        while self._new:
            report = self._new.popleft()
            self._seconds += report.seconds
            self._tally.add(report)
        return self._tally.tallied()

    def _since(self) -> Reasons:
        now = self._reasons()
        return None if now is None else {reason: n - self._before.get(reason, 0) for reason, n in now.items()}

    def _body(self, tallied: Tallied) -> JsonObject:
        return {
            "n_passes": tallied.n_passes,
            "n_tokens": tallied.n_tokens,
            "n_drafted": tallied.n_drafted,
            "n_accepted": tallied.n_accepted,
            "tokens_per_pass": tallied.tokens_per_pass,
            "tokens_per_second": tallied.n_tokens / self._seconds if self._seconds > 0.0 else None,
            "by_source": [{"source": source, "n_accepted": n} for source, n in tallied.n_by_source],
            "by_depth": [{"n_tried": one.n_tried, "n_accepted": one.n_accepted} for one in tallied.by_depth],
            "last": None if tallied.last is None else tree_body(tallied.last, self._vocab),
        }


def tree_body(report: RoundReport, vocab: Vocabulary) -> JsonObject:
    """The draft of a round, parents before children. parent -1: the last token of the text before it. source: whose
    guess, known of accepted ones only. next: what the model said itself behind the last accepted guess.
    """
    sources = dict(zip(report.path, report.sources, strict=False))  # the last token has a source, too: nobody's
    nodes: list[JsonObject] = [
        {"text": shown, "parent": parent, "accepted": node in sources, "source": sources.get(node, "")}
        for node, (shown, parent) in enumerate(zip(_shown(report.tree_tokens, vocab), report.tree_parents, strict=True))
    ]
    own = report.tokens[len(report.path) :]
    return {"nodes": nodes, "next": "".join(_shown(own, vocab))}


def _shown(tokens: tuple[int, ...], vocab: Vocabulary) -> Iterator[str]:
    """The text of each token by itself; that of a special one is its spelling."""
    for token in tokens:
        piece = vocab.piece(token)
        spelled = (text for text, special in vocab.special_tokens.items() if special == token)
        yield piece.decode("utf-8", "replace") if piece else next(spelled, "")
