"""Rounds, turns and completions with numbers that can be told apart."""

from __future__ import annotations

from apps.desk.turn import Drafted, Turn
from edgespec import Piece, RoundReport
from tests.server.toy_completion import completion_of


def report(
    tokens: int, parents: tuple[int, ...] = (), path: tuple[int, ...] = (), source: str = "lookup"
) -> RoundReport:
    """A round of so many tokens: the accepted ones by `source`, the last one by the target."""
    sources = (*(source for _ in path), "")
    nodes = tuple(range(10, 10 + len(parents)))
    n = len(parents)
    said = tuple(range(tokens))
    return RoundReport(n + 1, 0, n, len(path), said, sources, 0.0, 0.01, 0.02, 1, nodes, parents, path)


def drafted(parents: tuple[int, ...] = (), path: tuple[int, ...] = (), source: str = "lookup") -> Drafted:
    labels = tuple(f" n{node}" for node in range(len(parents)))
    return Drafted(report(len(path) + 1, parents, path, source), labels)


def answered(question: str = "Why?") -> Turn:
    """Three rounds: none drafted, two of three accepted, all of one. "a bc d ef", the guessed tokens being bc and e."""
    turn = Turn(question, "toy")
    for text, source in (("a", ""), (" b", "lookup"), ("c", "lookup"), (" d", ""), (" e", "suffix"), ("f", "")):
        turn.add_piece(Piece(text, (7,), source))
    turn.add_round(drafted())
    turn.add_round(drafted((-1, 0, 1), (0, 1)))
    turn.add_round(drafted((-1,), (0,), "suffix"))
    turn.end(completion_of("a bc d ef"), ("It was copied.", "A cause."))
    return turn
