"""What the side panel says of an answer, in words and bars. Pure functions of a turn; draws nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from edgespec.tally import Tallied

from .turn import Turn

# Deeper guesses are few; more bars than this tell nothing and push the rest out of sight.
MOST_BARS = 8
NOT_YET = "-"


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Bar:
    """Guesses `depth` tokens ahead; share: of those tried, 0 to 1."""

    depth: int
    share: float
    n_tried: int

    def spoken(self) -> str:
        return f"{self.depth} ahead: {self.share:.0%} of {self.n_tried}"


def figures(turn: Turn | None) -> tuple[Figure, ...]:
    """Always the same ones, of the answer so far; dashes for what is not known yet."""
    return tuple(_figures(turn or Turn(""), (turn or Turn("")).tallied()))


def _figures(turn: Turn, tallied: Tallied) -> Iterator[Figure]:
    yield Figure("Tokens per pass", f"{tallied.tokens_per_pass:.2f}" if tallied.n_passes else NOT_YET)
    yield Figure("Tokens per second", _rate(turn))
    yield Figure("Against plain", _speedup(turn))
    yield Figure("Accepted", f"{tallied.n_accepted} of {tallied.n_drafted}" if tallied.n_drafted else NOT_YET)
    yield Figure("Tokens, passes", f"{tallied.n_tokens}, {tallied.n_passes}" if tallied.n_passes else NOT_YET)
    yield Figure("Drafters", drafters(tallied))
    timings = turn.completion.timings if turn.completion else None
    yield Figure("First token", f"{timings.first_token_seconds:.2f} s" if timings else NOT_YET)
    yield Figure("Seed", str(timings.seed) if timings else NOT_YET)


def _rate(turn: Turn) -> str:
    """Of the whole answer once it is there, of its rounds until then."""
    if turn.completion is not None:
        return f"{turn.completion.timings.tokens_per_second:.1f}"
    return f"{turn.n_tokens / turn.decode_seconds:.1f}" if turn.decode_seconds > 0.0 else NOT_YET


def _speedup(turn: Turn) -> str:
    if turn.completion is None:
        return NOT_YET
    timings = turn.completion.timings
    if timings.plain_seconds <= 0.0 or timings.decode_seconds <= 0.0:
        return "not measured"
    return f"{timings.plain_seconds / timings.decode_seconds:.2f}x"


def drafters(tallied: Tallied) -> str:
    """Who had guesses accepted, and how many, most first."""
    return ", ".join(f"{name} {n}" for name, n in tallied.n_by_source) or NOT_YET


def bars(tallied: Tallied) -> tuple[Bar, ...]:
    depths = tallied.by_depth[:MOST_BARS]
    return tuple(Bar(depth, one.acceptance, one.n_tried) for depth, one in enumerate(depths, 1))
